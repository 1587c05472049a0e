"""Side-by-side timings: this package, onnxruntime, OpenVINO, LiteRT and naive ``jax.lax``. Run by ``python -m benchmarks``."""
