"""Side-by-side timings: this package, onnxruntime, OpenVINO and naive ``jax.lax``. Run by ``python -m benchmarks``."""
