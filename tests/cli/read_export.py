#!/usr/bin/env python3
"""Reads exported models by the formats alone, and compares every tensor and key with the run's checkpoint.

    read_export.py hf|gguf CHECKPOINT EXPORT TYPE

NumPy is all it needs. Exits with 1 and a sentence on a difference."""
import json
import struct
import sys

import numpy as np

FACTORS = {"relu": ("relu", 1), "scaled_relu": ("relu", np.float32(2**0.5)), "relu2": ("relu2", 1),
           "scaled_relu2": ("relu2", 2), "gelu": ("gelu", 1), "sqrt2_gelu": ("gelu", np.float32(2**0.5)), "tanh": ("tanh", 1)}


def check(what, got, want):
    if got != want:
        sys.exit(f"{what}: {got!r}, expected {want!r}")


def widen(bits):
    return (bits.astype(np.uint32) << 16).view(np.float32)


def narrow(x):
    """float32 to the nearest bfloat16, ties to even, as float32."""
    bits = np.ascontiguousarray(x, np.float32).view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000).view(np.float32)


def safetensors(path):
    data = open(path, "rb").read()
    length = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + length])
    meta, out = header.pop("__metadata__", {}), {}
    for name, t in header.items():
        raw = data[8 + length + t["data_offsets"][0]:8 + length + t["data_offsets"][1]]
        if t["dtype"] == "U8":
            out[name] = t["dtype"], raw
        else:
            kind = np.float32 if t["dtype"] == "F32" else np.uint16
            x = np.frombuffer(raw, kind).reshape(t["shape"])
            out[name] = t["dtype"], x if kind == np.float32 else widen(x)
    return meta, out


# ---- GGUF ----------------------------------------------------------------------------------------------------------


class Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, form):
        value = struct.unpack_from("<" + form, self.data, self.at)[0]
        self.at += struct.calcsize("<" + form)
        return value

    def text(self):
        n = self.take("Q")
        self.at += n
        return self.data[self.at - n:self.at].decode()

    def value(self, kind):
        if kind == 8:
            return self.text()
        if kind == 9:
            of, n = self.take("I"), self.take("Q")
            return [self.value(of) for _ in range(n)]
        return self.take({4: "I", 5: "i", 6: "f", 7: "?"}[kind])


def q8_0(raw, count):
    blocks = np.frombuffer(raw, np.dtype([("d", "<f2"), ("q", "i1", 32)]), count // 32)
    return (blocks["d"].astype(np.float32)[:, None] * blocks["q"]).reshape(-1)


def gguf(path):
    r = Reader(open(path, "rb").read())
    check("magic", r.take("4s"), b"GGUF")
    check("version", r.take("I"), 3)
    tensors, pairs, keys, out = r.take("Q"), r.take("Q"), {}, {}
    for _ in range(pairs):
        key = r.text()
        check(f"{key} again", key in keys, False)
        keys[key] = r.value(r.take("I"))
    listed = []
    for _ in range(tensors):
        name = r.text()
        shape = [r.take("Q") for _ in range(r.take("I"))][::-1]
        listed.append((name, shape, r.take("I"), r.take("Q")))
    start, end = (r.at + 31) // 32 * 32, 0
    for name, shape, kind, at in listed:
        count = int(np.prod(shape))
        size = {0: 4 * count, 30: 2 * count, 8: count // 32 * 34}[kind]
        check(f"place of {name}", at, end)
        end = (at + size + 31) // 32 * 32
        raw = r.data[start + at:start + at + size]
        x = {0: lambda: np.frombuffer(raw, np.float32), 30: lambda: widen(np.frombuffer(raw, np.uint16)),
             8: lambda: q8_0(raw, count)}[kind]()
        out[name] = {0: "F32", 30: "BF16", 8: "Q8_0"}[kind], x.reshape(shape)
    check("size of the file", len(r.data), start + end)
    return keys, out


# ---- Expectations --------------------------------------------------------------------------------------------------

BLOCK = {"attn.q": ("self_attn.q_proj", "attn_q"), "attn.k": ("self_attn.k_proj", "attn_k"), "attn.v": ("self_attn.v_proj", "attn_v"),
         "attn.o": ("self_attn.o_proj", "attn_output"), "mlp.up": ("mlp.up_proj", "ffn_up"), "mlp.down": ("mlp.down_proj", "ffn_down")}
ONES = [("attention_layernorm", "attn_norm"), ("feedforward_layernorm", "ffn_norm"), ("self_attn.q_norm", "attn_q_norm"),
        ("self_attn.k_norm", "attn_k_norm")]


def tensors(w, c, hf):
    """Tensors that the export must have, in float32."""
    width, head, factor = int(c["width"]), int(c["head_size"]), FACTORS[c["activation"]][1]
    tied, k = c["tied"] == "yes", 0 if hf else 1
    want = {("model.embed_tokens", "token_embd")[k]: w["embedding"], ("model.norm", "output_norm")[k]: np.ones(width, np.float32)}
    if not (hf and tied):
        want[("lm_head", "output")[k]] = w["embedding" if tied else "head"]
    for i in range(int(c["layers"])):
        place = ("model.layers", "blk")[k] + f".{i}."
        for ours, names in BLOCK.items():
            want[place + names[k]] = w[f"blocks.{i}.{ours}"] * np.float32(factor if ours == "mlp.down" else 1)
        for names in ONES:
            want[place + names[k]] = np.ones(head if "_norm" in names[0] and "attn." in names[0] else width, np.float32)
    return {name + ".weight": x for name, x in want.items()}


def compare(got, want, kind, hf):
    check("tensors", sorted(got), sorted(want))
    for name, x in want.items():
        stored, y = got[name]
        own = kind if x.ndim > 1 or hf else "F32"
        check(f"type of {name}", stored, own)
        check(f"shape of {name}", y.shape, x.shape)
        if own == "Q8_0":  # half a step, and the rounding of the scale to eleven bits
            rows = x.reshape(-1, 32)
            bound = np.abs(rows).max(1, keepdims=True) * (0.5 / 127 + 2**-11) + 2.0**-25 * 127
            check(f"{name} within half a step", bool((np.abs(y.reshape(-1, 32) - rows) <= bound).all()), True)
        else:
            check(f"{name} equal", bool(np.array_equal(y, narrow(x) if own == "BF16" else x)), True)


def byte_characters():
    """GPT-2's characters of all bytes."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    rest = [b for b in range(256) if b not in plain]
    return {**{b: chr(b) for b in plain}, **{b: chr(256 + i) for i, b in enumerate(rest)}}


def tokenizer_of(meta, own):
    """Kind, texts of the tokens as bytes (added ones as str), merges (None: not compared) and separator of a checkpoint."""
    kind, raw = meta["tokenizer"], own["tokenizer"][1] if "tokenizer" in own else b""
    if kind == "bytes":
        return kind, [bytes([i]) for i in range(256)], [], None
    if kind == "chars":
        text = raw.decode()
        return ("octets", [c.encode("latin-1") for c in text[2:]], [], None) if text[:2] == "\ufffd\ufffd" else \
            (kind, [c.encode() for c in text], None, None)
    o = json.loads(raw)
    back = {c: b for b, c in byte_characters().items()}
    added = {t["content"]: t["id"] for t in o["added_tokens"]}
    words = sorted(o["model"]["vocab"].items(), key=lambda item: item[1])
    return kind, [w if w in added else bytes(back[c] for c in w) for w, _ in words], o["model"]["merges"], added.get("<|endoftext|>")


def written(token):
    characters = byte_characters()
    return token if isinstance(token, str) else "".join(characters[b] for b in token)


def joined(merges, word):
    """Merges the characters of a word by rank, as GPT-2 does."""
    ranks = {m: i for i, m in enumerate(merges)}
    parts = list(word)
    while len(parts) > 1:
        best = min(range(len(parts) - 1), key=lambda i: ranks.get(parts[i] + " " + parts[i + 1], 1 << 60))
        if parts[best] + " " + parts[best + 1] not in ranks:
            break
        parts[best:best + 2] = [parts[best] + parts[best + 1]]
    return parts


def main(form, checkpoint, export, kind):
    meta, own = safetensors(checkpoint)
    c = json.loads(meta["config"])
    w = {name: x for name, (_, x) in own.items() if not isinstance(x, bytes)}
    name, tokens, merges, separator = tokenizer_of(meta, own)
    vocab, width, head = w["embedding"].shape[0], int(c["width"]), int(c["head_size"])
    sizes = dict(width=width, heads=width // head, layers=int(c["layers"]), block=int(c["block"]), base=float(c["rotary_base"]))
    if form == "hf":
        hf(export, kind, c, w, sizes, vocab, name, tokens, merges, separator)
        return
    keys, got = gguf(export)
    compare(got, tensors(w, c, False), {"float32": "F32", "bf16": "BF16", "q8_0": "Q8_0"}[kind], False)
    single = lambda x: struct.unpack("<f", struct.pack("<f", x))[0]
    texts = [written(t) for t in tokens]
    end = separator if separator is not None else len(tokens) if vocab > len(tokens) else vocab - 1
    want = {"general.architecture": "apertus", "general.file_type": {"float32": 0, "bf16": 32, "q8_0": 7}[kind],
            "general.quantization_version": 2, "general.alignment": 32, "apertus.context_length": sizes["block"],
            "apertus.embedding_length": width, "apertus.block_count": sizes["layers"], "apertus.feed_forward_length": 4 * width,
            "apertus.attention.head_count": sizes["heads"], "apertus.attention.head_count_kv": sizes["heads"],
            "apertus.attention.layer_norm_rms_epsilon": 2.0**-23, "apertus.rope.dimension_count": head,
            "apertus.rope.freq_base": single(sizes["base"]), "apertus.vocab_size": vocab,
            "xielu.alpha_p": single(0.541324854612918), "xielu.alpha_n": -1e4, "xielu.beta": 0.0, "xielu.eps": single(-1e-6),
            "tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "gpt-2", "tokenizer.ggml.add_bos_token": False,
            "tokenizer.ggml.bos_token_id": end, "tokenizer.ggml.eos_token_id": end,
            "tokenizer.ggml.tokens": texts + [f"<|unused{i}|>" for i in range(len(tokens), vocab)],
            "tokenizer.ggml.token_type": [3 if isinstance(t, str) else 1 for t in tokens] + [5] * (vocab - len(tokens))}
    ranks = keys.pop("tokenizer.ggml.merges")
    keys.pop("general.name")
    for key in {**keys, **want}:
        check(key, keys.get(key), want.get(key))
    check("all texts differ", len(set(keys["tokenizer.ggml.tokens"])), vocab)
    if merges is not None:
        check("merges", ranks, merges)
    else:  # every character is joined to its token, by pairs that are there once
        check("pairs once", len(set(ranks)), len(ranks))
        for t in texts:
            check("joined", joined(ranks, t), [t])


def hf(export, kind, c, w, sizes, vocab, name, tokens, merges, separator):
    meta, got = safetensors(f"{export}/model.safetensors")
    check("format", meta["format"], "pt")
    compare(got, tensors(w, c, True), {"float32": "F32", "bf16": "BF16"}[kind], True)
    read = lambda file: json.load(open(f"{export}/{file}", encoding="utf-8"))
    check("config", read("config.json"),
          {"architectures": ["ApertusForCausalLM"], "model_type": "apertus", "dtype": {"float32": "float32", "bf16": "bfloat16"}[kind],
           "vocab_size": vocab, "hidden_size": sizes["width"], "intermediate_size": 4 * sizes["width"],
           "num_hidden_layers": sizes["layers"], "num_attention_heads": sizes["heads"], "num_key_value_heads": sizes["heads"],
           "hidden_act": FACTORS[c["activation"]][0], "max_position_embeddings": sizes["block"], "rms_norm_eps": 2.0**-23,
           "tie_word_embeddings": c["tied"] == "yes", "rope_parameters": {"rope_type": "default", "rope_theta": sizes["base"]},
           "attention_bias": False, "attention_dropout": 0.0, "bos_token_id": separator, "eos_token_id": separator,
           "pad_token_id": None})
    check("generation", read("generation_config.json"),
          {"do_sample": True, "bos_token_id": separator, "eos_token_id": separator, "pad_token_id": separator})
    settings = read("tokenizer_config.json")
    check("tokenizer_config", settings.get("eos_token"), None if separator is None else "<|endoftext|>")
    t = read("tokenizer.json")
    vocabulary = {t.decode() if name == "chars" else written(t): i for i, t in enumerate(tokens)}
    check("vocabulary", t["model"]["vocab"], vocabulary)
    check("post processor", t["post_processor"], None)
    check("model", t["model"]["type"], "WordLevel" if name == "chars" else "BPE")
    if name != "chars":
        check("merges", t["model"]["merges"], merges)
    card = open(f"{export}/README.md", encoding="utf-8").read()
    for part in ("library_name: transformers", "scion train", "hash of the data", "bits per byte", "validation loss"):
        check(f"card has {part}", part in card, True)


main(*sys.argv[1:])
