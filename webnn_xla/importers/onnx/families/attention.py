"""Attention of ``com.microsoft``: multi-head, grouped-query with a cache, rotary embedding. ONNX's own come as functions."""

from __future__ import annotations

import math

import numpy as np

from webnn_xla.importers.onnx.errors import Malformed, Unsupported
from webnn_xla.importers.onnx.node import Node
from webnn_xla.importers.onnx.table import MICROSOFT, onnx_op
from webnn_xla.importers.onnx.types import INT32, INT64
from webnn_xla.importers.onnx.values import Tensor


def heads(n: Node, x: Tensor, count: int) -> Tensor:
    """[B, S, N·H] → [B, N, S, H]."""
    if x.rank == 4:
        return x
    if x.rank != 3 or count < 1 or x.shape[2] % count:
        raise Malformed(f"{x} does not have {count} heads")
    b, s, d = x.shape
    return n.permuted(n.to(x, [b, s, count, d // count]), [0, 2, 1, 3])


def merged(n: Node, x: Tensor) -> Tensor:
    """[B, N, S, H] → [B, S, N·H]."""
    b, c, s, h = x.shape
    return n.to(n.permuted(x, [0, 2, 1, 3]), [b, s, c * h])


def attend(
    n: Node,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    scale: float,
    bias: Tensor | None = None,
    keep: Tensor | None = None,
    filler: float = -1e30,
    softcap: float = 0.0,
    sink: bool = False,
) -> tuple[Tensor, Tensor]:
    """softmax(scale · q·kᵀ + bias, where kept)·v in float32, rounded once, and the scores. All are [B, N, …, H]."""
    wide = n.mul(n.floats(q), scale)
    scores = n.matmul(wide, n.permuted(n.floats(k), [0, 1, 3, 2]))
    if softcap > 0:
        scores = n.mul(n.tanh(n.mul(scores, 1 / softcap)), softcap)
    if bias is not None:
        scores = n.add(scores, n.floats(bias))
    if keep is not None:
        scores = n.where(keep, scores, n.const(filler, scores))
    if sink:
        edge = n.pad(scores, [0, 0, 0, 0], [0, 0, 0, 1])
        weights = n.cut(n.softmax(edge, 3), 3, 0, scores.shape[3])
    else:
        weights = n.softmax(scores, 3)
    return n.cast_to(n.matmul(weights, n.floats(v)), q.dtype), scores


def causal(n: Node, queries: int, keys: int) -> Tensor:
    """[1, 1, S, T]: which keys a query may see, the last query all of them."""
    seen = np.arange(keys)[None, :] <= np.arange(queries)[:, None] + (keys - queries)
    return n.const(seen[None, None])


def _padding(n: Node, mask: Tensor, batch: int, keys: int) -> Tensor:
    """A mask of ones and zeros per key, or lengths, as kept positions [B, 1, 1 or S, T]."""
    if mask.rank == 1 and mask.size == batch:
        places = n.to(n.iota(keys, np.int32), [1, keys])
        return n.to(n.lesser(places, n.to(n.cast_to(mask, INT32), [batch, 1])), [batch, 1, 1, keys])
    if mask.rank == 2:
        return n.to(n.not_equal(mask, 0), [batch, 1, 1, keys])
    if mask.rank == 3:
        return n.unsqueezed(n.not_equal(mask, 0), [1])
    raise Unsupported(f"a mask {mask}")


@onnx_op("MultiHeadAttention", domain=MICROSOFT)
def multi_head_attention(n: Node) -> list[Tensor | None]:
    q, k, v, bias = n[0], n.get(1), n.get(2), n.get(3)
    count = n.need("num_heads", int)
    if q.rank == 5:
        b, s, c, three, h = q.shape
        if three != 3 or c != count:
            raise Malformed(f"packed {q} does not have {count} heads")
        parts = [n.permuted(n.squeezed(n.cut(q, 3, i, 1), [3]), [0, 2, 1, 3]) for i in range(3)]
        q, k, v = parts
    elif k is not None and k.rank == 5:
        parts = [n.permuted(n.squeezed(n.cut(k, 3, i, 1), [3]), [0, 2, 1, 3]) for i in range(2)]
        k, v = parts
    if k is None or v is None:
        raise Malformed("key or value is missing")
    if bias is not None:
        sizes = [q.shape[-1] * (count if q.rank == 4 else 1), k.shape[-1] * (count if k.rank == 4 else 1)]
        qb, kb = n.cut(bias, 0, 0, sizes[0]), n.cut(bias, 0, sizes[0], sizes[1])
        vb = n.cut(bias, 0, sum(sizes), bias.size - sum(sizes))
        q, k, v = (n.add(t, b) if t.rank == 3 else t for t, b in ((q, qb), (k, kb), (v, vb)))
    query, key, value = heads(n, q, count), heads(n, k, count), heads(n, v, count)
    past_key, past_value = n.get(6), n.get(7)
    if past_key is not None and past_value is not None:
        key, value = n.concat([past_key, key], axis=2), n.concat([past_value, value], axis=2)
    b, _, s, h = query.shape
    keys = key.shape[2]
    keep = None if n.get(4) is None else _padding(n, n[4], b, keys)
    if n.attr("unidirectional", 0):
        seen = causal(n, s, keys)
        keep = seen if keep is None else n.logical_and(keep, seen)
    scale = n.attr("scale", 0.0) or 1 / math.sqrt(h)
    y, scores = attend(
        n, query, key, value, scale=scale, bias=n.get(5), keep=keep, filler=n.attr("mask_filter_value", -10000.0)
    )
    return [merged(n, y), key, value, n.cast_to(scores, q.dtype)]


@onnx_op("Attention", domain=MICROSOFT, partial="without packed sequences")
def attention(n: Node) -> list[Tensor | None]:
    x, weights, bias, mask, past, extra = n[0], n[1], n.get(2), n.get(3), n.get(4), n.get(5)
    count = n.need("num_heads", int)
    total = weights.shape[1]
    sizes = n.ints("qkv_hidden_sizes") or [total // 3] * 3
    projected = n.matmul(x, n.unsqueezed(weights, [0]))
    if bias is not None:
        projected = n.add(projected, bias)
    starts = np.cumsum([0, *sizes])
    q, k, v = (heads(n, n.cut(projected, 2, int(starts[i]), sizes[i]), count) for i in range(3))
    present = None
    if past is not None:
        k = n.concat([n.squeezed(n.cut(past, 0, 0, 1), [0]), k], axis=2)
        v = n.concat([n.squeezed(n.cut(past, 0, 1, 1), [0]), v], axis=2)
    if n.wants(1):
        present = n.concat([n.unsqueezed(k, [0]), n.unsqueezed(v, [0])], axis=0)
    b, _, s, h = q.shape
    keys = k.shape[2]
    keep = None if mask is None else _padding(n, mask, b, keys)
    if n.attr("unidirectional", 0):
        seen = causal(n, s, keys)
        keep = seen if keep is None else n.logical_and(keep, seen)
    scale = n.attr("scale", 0.0) or 1 / math.sqrt(h)
    y, _ = attend(n, q, k, v, scale=scale, bias=extra, keep=keep, filler=n.attr("mask_filter_value", -10000.0))
    return [merged(n, y), present]


def rotate(n: Node, x: Tensor, cosine: Tensor, sine: Tensor, interleaved: bool) -> Tensor:
    """Rotates pairs of the first elements of each head: ``x`` [B, N, S, H], tables [B or 1, 1, S, R / 2]."""
    size, half = x.shape[3], cosine.shape[3]
    if 2 * half > size:
        raise Malformed(f"rotary tables of {half} do not fit heads of {size}")
    part, rest = n.cut(x, 3, 0, 2 * half), n.cut(x, 3, 2 * half, size - 2 * half)
    b, c, s, _ = x.shape
    cosine, sine = n.cast_to(cosine, x.dtype), n.cast_to(sine, x.dtype)
    if interleaved:
        pairs = n.to(part, [b, c, s, half, 2])
        first, second = (n.squeezed(n.cut(pairs, 4, k, 1), [4]) for k in (0, 1))
    else:
        first, second = n.cut(part, 3, 0, half), n.cut(part, 3, half, half)
    real = n.sub(n.mul(first, cosine), n.mul(second, sine))
    imaginary = n.add(n.mul(first, sine), n.mul(second, cosine))
    if interleaved:
        turned = n.to(n.concat([n.unsqueezed(real, [4]), n.unsqueezed(imaginary, [4])], axis=4), [b, c, s, 2 * half])
    else:
        turned = n.concat([real, imaginary], axis=3)
    return turned if rest.shape[3] == 0 else n.concat([turned, rest], axis=3)


@onnx_op("RotaryEmbedding", domain=MICROSOFT)
def rotary_embedding(n: Node) -> Tensor:
    x, positions, cosine, sine = n[0], n[1], n[2], n[3]
    count = n.attr("num_heads", 0)
    if x.rank == 3:
        size = n.attr("rotary_embedding_dim", 0) and count
        width = x.shape[2] // count if size else 2 * cosine.shape[1]
        spread = heads(n, x, x.shape[2] // width)
    else:
        spread = x
    length = spread.shape[2]
    if positions.size == 1 and positions.rank == 1:
        positions = n.add(n.to(positions, [1, 1]), n.to(n.iota(length, positions.dtype), [1, length]))
    tables = [n.unsqueezed(n.gather(t, positions, axis=0), [1]) for t in (cosine, sine)]
    y = rotate(n, spread, tables[0], tables[1], bool(n.attr("interleaved", 0)))
    return merged(n, y) if x.rank == 3 else y


@onnx_op("GroupQueryAttention", domain=MICROSOFT)
def group_query_attention(n: Node) -> list[Tensor | None]:
    """New keys and values go into a cache of fixed length at each sequence's end; queries see what lies before them."""
    q, k, v = n[0], n.get(1), n.get(2)
    count, groups = n.need("num_heads", int), n.need("kv_num_heads", int)
    if count < 1 or groups < 1 or count % groups:
        raise Malformed(f"{count} heads in {groups} groups")
    if k is None or v is None:
        size = q.shape[2] // (count + 2 * groups)
        packed = q
        q, k, v = (n.cut(packed, 2, s * size, c * size) for s, c in ((0, count), (count, groups), (count + groups, groups)))
    query, key, value = heads(n, q, count), heads(n, k, groups), heads(n, v, groups)
    b, _, s, h = query.shape
    lengths = n.to(n.cast_to(n[5], INT64), [b, 1])
    total = n.known_int(6, "total_sequence_length")
    past_key, past_value = n.get(3), n.get(4)
    past = 0 if past_key is None else past_key.shape[2]
    keys = max(total, past, s)
    prompt = s == total
    start = n.const(np.zeros((b, 1)), INT64) if prompt else n.sub(n.add(lengths, 1), s)
    places = n.add(start, n.to(n.iota(s), [1, s]))
    if n.attr("do_rotary", 0):
        positions = n.get(9)
        positions = places if positions is None else n.to(positions, [positions.size // s, s])
        tables = [n.unsqueezed(n.gather(t, n.max(positions, 0), axis=0), [1]) for t in (n[7], n[8])]
        turn = bool(n.attr("rotary_interleaved", 0))
        query, key = rotate(n, query, tables[0], tables[1], turn), rotate(n, key, tables[0], tables[1], turn)

    def cached(cache: Tensor | None, new: Tensor) -> Tensor:
        if prompt and keys == s:
            return new
        base = n.const(np.zeros((b, groups, keys, h)), new) if cache is None or not cache.size else cache
        if base.shape[2] < keys:
            base = n.pad(base, [0] * 4, [0, 0, keys - base.shape[2], 0])
        index = n.broadcast(n.to(places, [b, 1, s, 1]), [b, groups, s, h])
        return n.scatter_elements(base, index, new, axis=2)

    key, value = cached(past_key, key), cached(past_value, value)
    columns, rows = n.to(n.iota(keys), [1, 1, 1, keys]), n.to(places, [b, 1, s, 1])
    keep = n.lesser_or_equal(columns, rows)
    window = n.attr("local_window_size", -1)
    if window > 0:
        keep = n.logical_and(keep, n.greater(columns, n.sub(rows, window)))

    def repeated(x: Tensor) -> Tensor:
        each = count // groups
        if each == 1:
            return x
        return n.to(n.broadcast(n.unsqueezed(x, [2]), [b, groups, each, keys, h]), [b, count, keys, h])

    scale = n.attr("scale", 0.0) or 1 / math.sqrt(h)
    if n.get(11) is not None:
        raise Unsupported("head_sink")
    y, _ = attend(
        n,
        query,
        repeated(key),
        repeated(value),
        scale=scale,
        bias=n.get(10),
        keep=keep,
        softcap=n.attr("softcap", 0.0),
        sink=bool(n.attr("smooth_softmax", 0) == 1),
    )
    return [merged(n, y), key, value]
