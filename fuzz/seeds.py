#!/usr/bin/env python3
"""Writes the seeds of the harnesses (corpus/) and the inputs that once failed (regressions/), as each harness describes
its input. Both are in the repository: this runs only when a harness changes its format."""
import base64, gzip, json, os, struct, zlib

here = os.path.dirname(os.path.abspath(__file__))


def put(folder, name, data):
    path = os.path.join(here, folder, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as f:
        f.write(data if isinstance(data, bytes) else data.encode())


def seed(name, data):
    put("corpus", name, data)


def failed(name, data):
    put("regressions", name, data)


# ---- Checkpoints: the harness sets the checksums right -----------------------------------------------------------

def checkpoint(tensors, meta, pad=True):
    header, data = {"__metadata__": meta} if meta is not None else {}, b""
    for name, (dtype, shape, raw) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header, separators=(",", ":"))
    text += " " * (-len(text) % 8 if pad else 0)
    return struct.pack("<Q", len(text)) + text.encode() + data


zeros = "xxh3-64:" + 16 * "0"
sums = {"checksum": zeros, "header_checksum": zeros}
weights = {"w": ("F32", [2, 3], struct.pack("<6f", *range(6))), "b": ("U8", [4], b"abcd")}
seed("checkpoint/ours", checkpoint(weights, {**sums, "step": "12", "config": '{"width":"8"}'}))
seed("checkpoint/ours-hex", checkpoint(weights, {**sums, "vocabulary.hex": "ff01"}))
seed("checkpoint/other-program", checkpoint(weights, None, False))
seed("checkpoint/scalar-and-empty", checkpoint({"s": ("I64", [], 8 * b"\1"), "e": ("BF16", [0, 4], b"")}, {}))
seed("checkpoint/cut-off", checkpoint(weights, sums)[:-3])

# ---- GGUF -----------------------------------------------------------------------------------------------------------

def gguf_text(text):
    return struct.pack("<Q", len(text)) + (text if isinstance(text, bytes) else text.encode())


def gguf(pairs, tensors, version=3, alignment=32, data=None):
    """pairs: key to (type, bytes); tensors: name to (dimensions, type, offset, bytes)."""
    head = b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(pairs))
    for key, (kind, raw) in pairs:
        head += gguf_text(key) + struct.pack("<I", kind) + raw
    end = 0
    for name, (shape, kind, offset, size) in tensors:
        head += gguf_text(name) + struct.pack("<I%dQIQ" % len(shape), len(shape), *shape, kind, offset)
        end = max(end, offset + size)
    head += b"\0" * (-len(head) % alignment)
    return head + (bytes(i % 251 for i in range(end)) if data is None else data)


gguf_pairs = [("general.architecture", (8, gguf_text("apertus"))), ("a.count", (4, struct.pack("<I", 2))),
              ("a.real", (6, struct.pack("<f", 0.5))), ("a.small", (1, b"\xff")), ("a.yes", (7, b"\1")),
              ("a.list", (9, struct.pack("<IQ3i", 5, 3, -1, 2, 3))),
              ("a.words", (9, struct.pack("<IQ", 8, 2) + gguf_text("one") + gguf_text(b"\xfftwo")))]
gguf_tensors = [("token_embd.weight", ([4, 3], 0, 0, 48)), ("blk.0.attn_q.weight", ([32, 2], 8, 64, 68)),
                ("blk.0.attn_norm.weight", ([2], 30, 160, 4))]
seed("gguf/usual", gguf(gguf_pairs, gguf_tensors))
seed("gguf/empty", gguf([], []))
seed("gguf/version-2", gguf(gguf_pairs[:2], gguf_tensors[:1], version=2))
seed("gguf/version-1", gguf([], [], version=1))
seed("gguf/big-endian", b"GGUF" + struct.pack(">IQQ", 3, 1, 1))
seed("gguf/aligned-64", gguf([("general.alignment", (4, struct.pack("<I", 64)))], [("t", ([3], 0, 64, 12))], alignment=64))
seed("gguf/alignment-0", gguf([("general.alignment", (4, struct.pack("<I", 0)))], []))
seed("gguf/cut-off", gguf(gguf_pairs, gguf_tensors)[:-9])
seed("gguf/cut-in-pairs", gguf(gguf_pairs, gguf_tensors)[:100])
seed("gguf/many", b"GGUF" + struct.pack("<IQQ", 3, 1 << 60, 1 << 40))
seed("gguf/long-array", gguf([("a", (9, struct.pack("<IQ", 8, 1 << 62)))], []))
seed("gguf/nested", gguf([("a", (9, struct.pack("<IQ", 9, 1)))], []))
seed("gguf/twice", gguf(2 * [("a", (7, b"\0"))], []))
seed("gguf/overlap", gguf([], [("a", ([16], 0, 0, 64)), ("b", ([8], 0, 32, 32))]))
seed("gguf/huge-shape", gguf([], [("a", ([1 << 40, 1 << 40], 0, 0, 4))]))
seed("gguf/part-of-block", gguf([], [("a", ([33], 8, 0, 68))]))
seed("gguf/unknown-type", gguf([], [("a", ([8], 77, 0, 32))]))
seed("gguf/key-no-text", gguf([(b"\xff\0", (7, b"\0"))], []))

# ---- Folders of transformers: config.json, the index and a file of weights, with bytes 0xff between ---------------------

apertus = {"architectures": ["ApertusForCausalLM"], "model_type": "apertus", "vocab_size": 3, "hidden_size": 4,
           "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 2,
           "hidden_act": "relu2", "max_position_embeddings": 8, "rms_norm_eps": 2.0**-23, "tie_word_embeddings": False,
           "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0}, "attention_bias": False}
one_file = checkpoint({"model.norm.weight": ("F32", [4], struct.pack("<4f", 1, 1, 1, 1))}, {"format": "pt"})


def folder(config, index, weights):
    text = config if isinstance(config, str) else json.dumps(config)
    return text.encode() + b"\xff" + (json.dumps(index) if index is not None else "").encode() + b"\xff" + weights


seed("hf_folder/usual", folder(apertus, None, one_file))
seed("hf_folder/index", folder(apertus, {"weight_map": {"model.norm.weight": "part.safetensors"}}, one_file))
seed("hf_folder/index-other", folder(apertus, {"weight_map": {"lm_head.weight": "part.safetensors"}}, one_file))
seed("hf_folder/index-outside", folder(apertus, {"weight_map": {"model.norm.weight": "../part.safetensors"}}, one_file))
seed("hf_folder/index-empty", folder(apertus, {"weight_map": {}}, one_file))
seed("hf_folder/grouped", folder({**apertus, "num_key_value_heads": 1}, None, one_file))
seed("hf_folder/old-rope", folder({**apertus, "rope_parameters": None, "rope_theta": 500.0}, None, one_file))
seed("hf_folder/scaled-rope", folder({**apertus, "rope_parameters": {"rope_type": "llama3", "factor": 8}}, None, one_file))
seed("hf_folder/wide", folder({**apertus, "hidden_size": 1 << 60, "num_attention_heads": 1}, None, one_file))
seed("hf_folder/xielu", folder({**apertus, "hidden_act": "xielu"}, None, one_file))
seed("hf_folder/llama", folder({"architectures": ["LlamaForCausalLM"], "hidden_size": "4"}, None, one_file))
seed("hf_folder/no-object", folder("[1, 2", None, one_file))

# ---- Data -----------------------------------------------------------------------------------------------------------

def shard(tokens, magic=20240520, version=1, count=None):
    return struct.pack("<3i", magic, version, len(tokens) if count is None else count), struct.pack(
        "<%dH" % len(tokens), *tokens)


head, tokens = shard([i * 7 % 300 for i in range(20)])
seed("tokens/file", b"\0" + head + 1012 * b"\0" + tokens)
seed("tokens/short", b"\1" + head + tokens)
seed("tokens/two", b"\2" + 2 * (head + tokens))
seed("tokens/wide", b"\1" + struct.pack("<3i", 20240801, 7, 4) + struct.pack("<4I", 0, 299, 5, 70000))
seed("tokens/count-wrong", b"\1" + shard([], count=1 << 30)[0] + tokens)

seed("text/ascii", "First Citizen:\nBefore we proceed any further, hear me speak.\n")
seed("text/utf8", "Grüße, 世界 🎉 – naïve\n")
seed("text/bytes", bytes(range(254)))
seed("text/zero", b"a\0b\0c\n")
seed("text/vocabulary", "\n abc".encode() + b"\xff" + b"abc cab\n")
seed("text/vocabulary-of-bytes", "\ufffd\ufffdab\u00e9".encode() + b"\xff" + b"ab\xe9\xe9")
seed("text/vocabulary-alone", "\ufffe\ufffe\n abc\u00e9".encode() + b"\xff")
seed("text/gzip", gzip.compress(b"abcabc\n", mtime=0))
seed("text/zstd", bytes.fromhex("28b52ffd0458550000206162630a01007e6e08ddca461c"))
seed("text/utf16", "\n abc\U0001f389".encode() + b"\xff" + "\ufeffab\U0001f389\n".encode("utf-16-le"))
seed("text/utf16-big", "\n abc\U0001f389".encode() + b"\xff" + "\ufeffab\U0001f389\n".encode("utf-16-be"))

seed("jsonl/records", '{"text":"a\\n"}\n\n{"id":1,"text":"b \\u0000 {}"}\r\n{"text":""}\n{"text":"Gr\\u00fc\u00dfe"}')
seed("jsonl/broken", '{"text":"a"}\n{"text":"b\n')
seed("jsonl/no-text", '{"text":"a"}\n{"body":"b"}\n')
seed("jsonl/number", '{"text":1}\n')
seed("jsonl/gzip", gzip.compress(b'{"text":"a"}\n{"text":"b"}\n', mtime=0))
seed("jsonl/utf16", '\ufeff{"text":"a"}\n'.encode("utf-16-le"))


def idx(magic, dims, data):
    return struct.pack(">I%dI" % len(dims), magic, *dims) + data


def folder(*files):
    return b"".join(struct.pack("<H", len(f)) + f for f in files)


images = idx(0x803, [3, 2, 2], bytes(range(12)))
labels = idx(0x801, [3], b"\0\1\2")
seed("idx/plain", folder(images, labels, images, labels))
seed("idx/gzip", folder(*[gzip.compress(f, mtime=0) for f in (images, labels, images, labels)]))
seed("idx/huge-header", folder(idx(0x803, [2**32 - 1] * 3, b""), labels, images, labels))
seed("idx/no-validation", folder(images, labels))

seed("cifar10/two-each", 6 * bytes([2, 0, 3, 9]))
seed("cifar10/uneven", 5 * bytes([1, 0, 3]) + bytes([2, 0, 1, 2]))
seed("cifar10/cut-off", bytes([1, 256 - 5, 3]) + 5 * bytes([1, 0, 3]))
seed("cifar10/missing", bytes([7, 0]))

# ---- Images: two bytes for the harness, then a file ---------------------------------------------------------------

def chunk(name, data):
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def png(width, height, depth, colour, rows, interlaced=0, extra=b""):
    head = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, interlaced)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + extra + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def exif(order, orientation, count=1, at=8):
    return (b"II*\0" if order == "<" else b"MM\0*") + struct.pack(order + "IHHHIHH", at, count, 0x112, 3, 1, orientation, 0)


def segment(mark, data):
    return bytes([0xff, mark]) + struct.pack(">H", 2 + len(data)) + data


def jpeg(width, height, components, scan=b"", frame=0xc0, extra=b""):
    """Flat blocks, 1 bit each: a Huffman table for DC with the one code 0 of length 1 (no difference), AC likewise (end of
    block). `scan` replaces their bits."""
    blocks = (width + 7) // 8 * ((height + 7) // 8) * components
    bits = scan or bytes((2 * blocks + 7) // 8)
    table = bytes([1] + 15 * [0] + [0])
    part = segment
    return (b"\xff\xd8" + extra + part(0xdb, bytes([0] + 64 * [1]))
            + part(frame, struct.pack(">BHHB", 8, height, width, components)
                   + b"".join(bytes([i + 1, 0x11, 0]) for i in range(components)))
            + part(0xc4, b"\x00" + table) + part(0xc4, b"\x10" + table)
            + part(0xda, bytes([components]) + b"".join(bytes([i + 1, 0]) for i in range(components)) + b"\x00\x3f\x00")
            + bits + b"\xff\xd9")


rows = b"".join(b"\0" + bytes((7 * y + 31 * x) % 256 for x in range(9)) for y in range(4))
seed("image/png-rgb", b"\5\x80" + png(3, 4, 8, 2, rows))
seed("image/png-grey", b"\1\xff" + png(9, 4, 8, 0, rows))
seed("image/png-bits", b"\0\1" + png(70, 4, 1, 0, rows))
seed("image/png-palette", b"\3\0" + png(9, 4, 8, 3, rows, extra=chunk(b"PLTE", bytes(768))))
seed("image/png-16", b"\2\7" + png(1, 4, 16, 6, b"".join(r[:1] + r[1:9] for r in [rows[i:i + 10] for i in range(0, 40, 10)])))
seed("image/png-interlaced", b"\7\x7f" + png(1, 1, 8, 2, b"\0\1\2\3", 1))
seed("image/png-cut-off", b"\5\5" + png(3, 4, 8, 2, rows)[:-20])
seed("image/jpeg-grey", b"\5\x80" + jpeg(12, 9, 1))
seed("image/jpeg-colour", b"\1\xff" + jpeg(20, 9, 3))
seed("image/jpeg-cmyk", b"\1\2" + jpeg(8, 8, 4))
seed("image/jpeg-cut-off", b"\1\2" + jpeg(40, 40, 3)[:-5])
adobe = lambda transform: segment(0xee, b"Adobe\0\x64\0\0\0\0" + bytes([transform]))
seed("image/jpeg-cmyk-adobe", b"\4\3" + jpeg(9, 20, 4, extra=adobe(0)))
seed("image/jpeg-ycck", b"\5\6" + jpeg(9, 20, 4, extra=adobe(2)))
for order in "<>":
    name = "little" if order == "<" else "big"
    seed("image/jpeg-exif-" + name, b"\5\5" + jpeg(20, 9, 3, extra=segment(0xe1, b"Exif\0\0" + exif(order, 6))))
    seed("image/png-exif-" + name, b"\5\x86" + png(3, 4, 8, 2, rows, extra=chunk(b"eXIf", exif(order, 8))))
seed("image/jpeg-exif-cut-off", b"\5\5" + jpeg(20, 9, 3, extra=segment(0xe1, b"Exif\0\0" + exif(">", 6)[:21])))
seed("image/jpeg-exif-many", b"\5\5" + jpeg(20, 9, 3, extra=segment(0xe1, b"Exif\0\0" + exif("<", 3, 65535, 8))))
seed("image/jpeg-exif-far", b"\5\5" + jpeg(20, 9, 3, extra=segment(0xe1, b"Exif\0\0" + exif("<", 3, 1, 0xffffffff))))
seed("image/jpeg-exif-inks", b"\2\7" + jpeg(9, 20, 4, extra=adobe(2) + segment(0xe1, b"Exif\0\0" + exif(">", 7))))

# ---- Configurations -------------------------------------------------------------------------------------------------

seed("ini/usual", "# about\n[model]\nmodel = gpt\nwidth = 64\nlayers = 2\n[optimizer]\nrule = scion\nlr = 2^-9\n")
seed("ini/images", "\ufeffmodel: mlp ; comment\ndata_kind = synthetic\nnorms = sign,spectral,sign\nseed=7\n")
seed("ini/twice", "width = 64\nwidth = 32\n")
seed("ini/unknown", "widht = 64\n")
seed("pairs/usual", "model=gpt\nwidth=64\nlr=2^-9\nsteps=100\nschedule=linear\nwarmup=10\n")
seed("pairs/mlp", "model=mlp\nrule=adamw\nlight=no\nbatch=1e3\nthreads=2\nmax_minutes=1.5\n")
seed("json/usual", '{"model":"gpt","width":"64","lr":"0.001953125","tied":"no","steps":"100"}')
seed("json/not-strings", '{"width":64,"tied":true,"lr":0.01}')
seed("json/unknown", '{"widht":"64"}')
seed("grid/usual", "lr=2^-12..2^-2\nwidth=64..512:*2\n")
seed("grid/lists", "rule=scion,adamw\nmomentum=0.1..0.5:0.1\nseed=1..3\n")
seed("grid/norms", "norms=onehot/shared/sign,spectral,sign\nlr=0.1,0.2\n")
seed("grid/wrong", "lr=0.1..\nwidth=,\n")

# ---- Optimizer states -----------------------------------------------------------------------------------------------

for rule in range(12):
    seed("state/rule-%d" % rule, bytes([rule, 1]) + struct.pack("<HQ", 72, 5))
radius, own_steps, all_steps = 153, 201, 64  # where the state of the first parameter has them
for name, at, word in (("radius-nan", radius, struct.pack("<d", float("nan"))),
                       ("radius-negative", radius, struct.pack("<d", -5)),
                       ("radius-infinite", radius, struct.pack("<d", float("inf"))),
                       ("steps-largest", own_steps, b"\xff" * 7 + b"\x7f"),
                       ("all-steps-largest", all_steps, b"\xff" * 7 + b"\x7f")):
    failed("state/" + name, bytes([0, 1]) + struct.pack("<H", at) + word)

# ---- Runs -----------------------------------------------------------------------------------------------------------

lines = "".join('{"step":%d,"loss":%g,"lr":0.01,"tokens_per_s":1000,"optimizer_share":0.3}\n' % (s, 4 / s)
                for s in range(1, 6))
lines += '{"step":5,"val_loss":1.5,"accuracy":0.5}\n{"step":5,"name":"head","norm":9,"bound":10}\n'
summary = ('{"steps":5,"parameters":1000,"tokens":640,"seconds":2.5,"loss":0.8,"val_loss":1.5,"best_val_loss":1.5,'
           '"accuracy":0.5,"peak_bytes":1e6,"config":{"width":"64","lr":"0.01"}}')
seed("run/running", lines)
seed("run/ended", lines.encode() + b"\0" + summary.encode())
seed("run/images", '{"step":1,"loss":4,"lr":0.01,"images_per_s":9,"time":"2026-11-16T18:10:32Z","elapsed":1.5,"images":64}\n'
     '{"step":1,"name":"a","norm":1.1,"bound":1,"overshoot":1.21,"ratio":1.1}\n\0'
     '{"state":"done","steps":1,"images":64,"images_per_s":8,"data_hash":"00ff","skipped":1,"plain_accuracy":0.5}')
seed("run/diverged", '{"step":1,"loss":4,"lr":0.01}\n{"step":2,"loss":null,"lr":0.01}\n{"step":3,"lo')
seed("run/names", '{"step":1,"name":"<script>&\\"\'=1+1","norm":1,"bound":null}\n{"step":1,"loss":1}\n')
failed("run/loss-of-300-decades", '{"step":1,"val_loss":2.3e-308}\n{"step":2,"val_loss":1e300}\n')
failed("run/numbers-beyond-integers", b'{"step":1,"loss":1}\n\0{"steps":1e300,"parameters":-1e300,"tokens":1e19}')

wrong = {"format": "scion-mistakes-1", "step": 7, "tta": "none",
         "classes": [{"name": "<b>", "images": 3, "right": 1}, {"name": "cat", "images": 2, "right": 2}],
         "pairs": 1, "confusion": [[0, 1, 2]], "size": [1, 2, 1],
         "worst": [{"sample": 4, "class": 0, "answer": 1, "loss": 2.5, "probability": 0.9, "pixels": "AP8="}]}
seed("mistakes/usual", json.dumps(wrong))
seed("mistakes/file", json.dumps({**wrong, "worst": [{**wrong["worst"][0], "file": "cat/<b>\u00e9\n1.png"}]}))
seed("mistakes/none", json.dumps({**wrong, "classes": wrong["classes"][1:], "pairs": 0, "confusion": [], "worst": []}))
seed("mistakes/many-classes", json.dumps({**wrong, "classes": wrong["classes"] + 30 * wrong["classes"][1:]}))
seed("mistakes/contradiction", json.dumps({**wrong, "confusion": [[0, 1, 9]]}))
seed("mistakes/pixels-missing", json.dumps({**wrong, "size": [2, 2, 3]}))

# ---- Ledgers --------------------------------------------------------------------------------------------------------

seed("ledger/good", b"\1")
seed("ledger/changed", b"\1" + struct.pack("<H4s", 100, b"\0\0\0\7") + struct.pack("<H4s", 4500, b"abcd"))
seed("ledger/no-database", b"\0" + b"SQLite format 3\0")
seed("ledger/empty", b"\0")
seed("ledger_report/good", "")
seed("ledger_report/numbers", "points.loss NULL\nruns.val_loss@2 1e300\nnorms.bound 0\nruns.seconds -1\n")
seed("ledger_report/texts", "norms.name '<b>&\nruns.message '\x1b[31mred\nruns.state@3 'failed\n")
seed("ledger_report/config", 'runs.config@1 \'{"width":"16","lr":"1e-3"}\nruns.kind@2 1\n')
failed("ledger_report/coords-without-step-0", "coords.step -1\n")
failed("ledger_report/coords-step-largest", "coords.step 9223372036854775807\n")
failed("ledger_report/loss-of-300-decades", "points.val_loss@2 1e-300\n")
failed("ledger_report/name-no-utf8", b"norms.name '\xff\xfe=cmd\n")
failed("ledger_report/name-formula", "norms.name '=HYPERLINK(\"x\")\n")

# ---- Tokenizers -----------------------------------------------------------------------------------------------------

printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
letters = [chr(b) if b in printable else chr(256 + sum(c not in printable for c in range(b))) for b in range(256)]


def tokenizer(merges, split=None, more={}, model={}):
    vocab = {c: i for i, c in enumerate(letters)}
    for a, b in merges:
        vocab.setdefault(a + b, len(vocab))
    level = {"type": "ByteLevel", "add_prefix_space": False, "use_regex": split is None}
    if split is not None:
        level = {"type": "Sequence", "pretokenizers": [
            {"type": "Split", "pattern": {"Regex": split}, "behavior": "Isolated", "invert": False}, level]}
    added = [{"id": len(vocab), "content": "<|endoftext|>", "special": True}]
    return json.dumps({"added_tokens": added, "pre_tokenizer": level, "decoder": {"type": "ByteLevel"}, **more,
                       "model": {"type": "BPE", "vocab": vocab, "merges": [" ".join(m) for m in merges], **model}},
                      ensure_ascii=False, separators=(",", ":"))


few = [("a", "a"), ("t", "e"), ("s", "t"), ("te", "st"), ("aa", "aa"), ("Ġ", "a")]
seed("tokenizer_json/usual", tokenizer(few))
seed("tokenizer_json/out-of-order", tokenizer(few[::-1]).replace('"te st"', '"t e"'))
seed("tokenizer_json/split", tokenizer(few, r"(?i:'s|'t)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|\s+(?!\S)|\s+"))
seed("tokenizer_json/slow-pattern", tokenizer(few, r"(a+)+$"))
seed("tokenizer_json/ignore-merges", tokenizer([], model={"ignore_merges": True}))
seed("tokenizer_json/digits", tokenizer(few).replace('{"type":"ByteLevel"', '{"type":"Sequence","pretokenizers":[{"type":'
     '"Digits","individual_digits":true},{"type":"ByteLevel"', 1).replace('"use_regex":true}', '"use_regex":true}]}', 1))
seed("tokenizer_json/word-piece", '{"model":{"type":"WordPiece","vocab":{"a":0}}}')
seed("tokenizer_json/normalizer", tokenizer(few, more={"normalizer": {"type": "NFC"}}))
seed("tokenizer_json/missing-token", tokenizer(few).replace('"te st"', '"te xx"'))
seed("tokenizer_json/cut-off", tokenizer(few)[:-40])



def characters(vocab):
    return json.dumps({"version": "1.0", "added_tokens": [], "normalizer": None, "pre_tokenizer": {
        "type": "Split", "pattern": {"Regex": "[\\s\\S]"}, "behavior": "Isolated", "invert": False},
        "decoder": {"type": "Fuse"}, "model": {"type": "WordLevel", "vocab": vocab, "unk_token": "?"}})


seed("tokenizer_json/characters", characters({"\n": 0, "a": 1, "b": 2, "\u00fc": 3, "\U0001f600": 4}))
seed("tokenizer_json/characters-order", characters({"b": 0, "a": 1}))
seed("tokenizer_json/characters-hole", characters({"a": 0, "b": 2}))
seed("tokenizer_json/characters-word", characters({"a": 0, "ab": 1}))
seed("tokenizer_json/characters-none", characters({}))

base64_of = lambda b: base64.b64encode(b).decode()
ranks = [bytes([i]) for i in range(256)] + [b"aa", b"st", b"te", b"test", b"aaaa", b"aaa"]
seed("vocabulary/tiktoken", b"\0" + "".join("%s %d\n" % (base64_of(t), i) for i, t in enumerate(ranks)).encode())
seed("vocabulary/tiktoken-few", b"\0YQ== 0\nYg== 1\nYWI= 2\n")
seed("vocabulary/tiktoken-hole", b"\0YQ== 0\nYg== 2\n")
seed("vocabulary/tiktoken-three-parts", b"\0YQ== 0\nYg== 1\nYWJh 2\nYWI= 3\n")
seed("vocabulary/pair", b'\1{"a":0,"b":1,"ab":2,"<|endoftext|>":3}\xff#version: 0.2\na b\n')
seed("vocabulary/pair-missing", b'\1{"a":0,"b":1}\xff#version: 0.2\na b\n')
seed("vocabulary/pair-no-object", b"\1[]\xffa b\n")

seed("bpe/letters", b"aa" + b"\x80\x80" + b"ab" + b"\x80b" + b"\xff" + b"aaaaaaab aabaab ab aaab")
seed("bpe/words", b"th\x80e a \x80" + b"in\x83g" + b"\xff" + b"the thing in the air, that's the 2nd th\xc3\xa4ng")
seed("bpe/out-of-order", b"bc" + b"ab" + b"a\x80" + b"\x81c" + b"ab" + b"\xff" + b"abcabcbcaabbcc")
seed("bpe/bytes", b"ab\xff" + bytes(range(256)))
failed("bpe/merge-across-invalid-utf8", b"b\x90" + b"\xff" + b"ab\x90b\x90")
