"""Tokenizers beside Hugging Face's tokenizers and tiktoken (tools/peers):
    peers_tokenizers.py compare SCION FOLDER STRINGS   GPT-2's vocabulary, one that we learned, and tiktoken's larger ones
    peers_tokenizers.py vectors FOLDER                 strings.jsonl by the tokenizer.json there
"""
import base64, json, os, random, subprocess, sys, unicodedata

import regex, tiktoken, tokenizers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

GPT2 = r"""'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"""
printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
others = [b for b in range(256) if b not in printable]
byte_of = {chr(b): b for b in printable} | {chr(256 + i): b for i, b in enumerate(others)}


def as_bytes(text):
    return bytes(byte_of[c] for c in text)


def by_tiktoken(vocab):
    """Ranks are the numbers of the tokens: get_encoding would download them."""
    ranks = {as_bytes(k): v for k, v in vocab.items() if not k.startswith("<|")}
    return tiktoken.Encoding("ranks", pat_str=GPT2, mergeable_ranks=ranks, special_tokens={})


def by_tokenizers(vocab, merges):
    t = Tokenizer(models.BPE(vocab, merges))
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    t.decoder = decoders.ByteLevel()
    return t


# ---- Strings --------------------------------------------------------------------------------------------------------

spaces = " \n\t\r\v\f\x1c\x1f\x85\xa0\u1680\u180e\u2003\u2028\u2029\u200b\u202f\u205f\u3000\ufeff"
contractions = ["'s", "'t", "'re", "'ve", "'m", "'ll", "'d", "'S", "'LL", "'", "''", "\u2019s"]
ranges = [(0x21, 0x7f), (0xa1, 0x250), (0x250, 0x370), (0x370, 0x590), (0x590, 0xe00), (0xe00, 0x2000), (0x2000, 0x3000),
          (0x3000, 0xd800), (0xe000, 0x10000), (0x10000, 0x20000), (0x1f300, 0x1fa00), (0x20000, 0x33480), (0, 0x20),
          (0xe0000, 0xe01f0)]


def piece(r, words):
    kind = r.randrange(8)
    if kind == 0:
        return r.choice(spaces) * r.randrange(1, 5)
    if kind == 1:
        return r.choice(contractions)
    if kind == 2:
        return str(r.randrange(10 ** r.randrange(1, 12)))
    if kind == 3:
        return r.choice(["a", "ab", "the", "-", "=", " ", "\t", "\U0001f600", "\u4f60"]) * r.randrange(1, 40)
    if kind == 4:
        return " " * r.randrange(2) + r.choice(words)
    if kind == 5:
        return "".join(r.choice(words) for _ in range(r.randrange(1, 4)))
    first, end = r.choice(ranges)
    return "".join(chr(r.randrange(first, end)) for _ in range(r.randrange(1, 6)))


def strings(count, seed, words):
    r = random.Random(seed)
    made = []
    while len(made) < count:
        text = "".join(piece(r, words) for _ in range(r.randrange(1, 12)))
        if text:
            made.append(text)
    return made


# ---- Comparing ------------------------------------------------------------------------------------------------------

def encode(scion, path, texts, folder):
    """The tokens of all texts, as numbers and as they were printed."""
    file = os.path.join(folder, "strings.jsonl")
    with open(file, "w", encoding="utf-8") as f:
        f.writelines(json.dumps({"text": t}) + "\n" for t in texts)
    out = subprocess.run([scion, "tokenizer", "encode", "tokenizer=" + path, file], capture_output=True, check=True).stdout
    return [[int(i) for i in line.split()] for line in out.decode().split("\n")[:-1]], out


def other_patterns(scion, folder, count):
    """cl100k_base and o200k_base, as tiktoken files. Only characters that Unicode 14 has: PCRE2 knows no later ones."""
    bad = 0
    for name in ("cl100k_base", "o200k_base"):
        about = json.load(open(os.path.join(folder, "tiktoken", name + ".json")))
        ranks = {}
        for first, *tokens in (line.split(" ")[1:] for line in about["bpe_ranks"].split("\n") if line):
            ranks |= {base64.b64decode(t): int(first) + i for i, t in enumerate(tokens)}
        path = os.path.join(folder, name + ".tiktoken")
        with open(path, "w") as f:
            f.writelines(f"{base64.b64encode(t).decode()} {i}\n" for t, i in ranks.items())
        words = [w for w in (t.decode(errors="ignore") for t in ranks) if w]
        texts = [t for t in strings(count, 3, words) if all(unicodedata.category(c) != "Cn" for c in t)]
        peer = tiktoken.Encoding(name, pat_str=about["pat_str"], mergeable_ranks=ranks, special_tokens={})
        got, _ = encode(scion, path, texts, folder)
        wrong = [i for i, t in enumerate(texts) if i >= len(got) or got[i] != peer.encode_ordinary(t)]
        print(f"{name}: {len(texts)} strings, {len(wrong)} with other tokens than tiktoken's")
        for i in wrong[:3]:
            print(ascii(texts[i]), got[i], peer.encode_ordinary(texts[i]), sep="\n  ")
        bad += len(wrong) + (len(got) != len(texts))
    return bad


def compare(scion, folder, count):
    docs = json.load(open(os.path.join(folder, "docs.json"), encoding="utf-8"))["model"]
    gpt2 = json.load(open(os.path.join(folder, "gpt2", "encoder.json"), encoding="utf-8"))
    lines = open(os.path.join(folder, "gpt2", "vocab.bpe"), encoding="utf-8").read().split("\n")[1:]
    print(f"tokenizers {tokenizers.__version__}, tiktoken {tiktoken.__version__}")
    bad = learning(docs) + other_patterns(scion, folder, count // 10)
    for name, path, vocab, merges in (("GPT-2", "gpt2", gpt2, [tuple(l.split()) for l in lines if l]),
                                      ("ours", "docs.json", docs["vocab"], [tuple(m.split(" ")) for m in docs["merges"]])):
        words = [as_bytes(k).decode(errors="ignore") for k in vocab if not k.startswith("<|")]
        texts = strings(count, 1, [w for w in words if w])
        got, printed = encode(scion, os.path.join(folder, path), texts, folder)
        ranks, hf = by_tiktoken(vocab), by_tokenizers(vocab, merges)
        if path == "docs.json":  # the file itself, as they read it
            hf = Tokenizer.from_file(os.path.join(folder, path))
        wrong = [i for i, t in enumerate(texts)
                 if i >= len(got) or got[i] != ranks.encode_ordinary(t) or got[i] != hf.encode(t, add_special_tokens=False).ids]
        back = subprocess.run([scion, "tokenizer", "decode", "tokenizer=" + os.path.join(folder, path)],
                              input=printed, capture_output=True, check=True)
        same = back.stdout == "".join(texts).encode()
        print(f"{name}: {len(texts)} strings, {len(wrong)} with other tokens; decoded: {'the same' if same else 'DIFFERENT'}")
        for i in wrong[:3]:
            print(repr(texts[i]), got[i], ranks.encode_ordinary(texts[i]), sep="\n  ")
        bad += len(wrong) + (not same) + (len(got) != len(texts))
    return bad


def learning(docs):
    """The merges of Hugging Face's trainer, on the same texts."""
    texts = [open(os.path.join(d, f), encoding="utf-8").read() for d, _, fs in os.walk("docs") for f in fs]
    texts.append(open("README.md", encoding="utf-8").read())
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    t.train_from_iterator(texts, trainers.BpeTrainer(vocab_size=1999, min_frequency=2, show_progress=False,
                                                     initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    merges = [" ".join(m) for m in json.loads(t.to_str())["model"]["merges"]]
    same = merges == docs["merges"]
    print(f"learning: {len(merges)} merges, {'the same' if same else 'DIFFERENT'}")
    return not same


# ---- Vectors --------------------------------------------------------------------------------------------------------

fixed = ["", " ", "a", "\0", "\0\0a\0", "Hello, world!", "naïve café Ångström", "Привет, мир", "你好，世界", "日本語テスト", "한국어",
         "مرحبا بالعالم ١٢٣", "नमस्ते", "👩‍👩‍👧‍👦 🎉🎉 🇩🇪", "e\u0301 a\u030a", "it's we'll I'd they're you've I'm don't", "IT'S WE'LL",
         "'s 't ' '' 'x", "1234567890 3.14 ½ Ⅷ ²", "a  b   c    d", "   lead", "trail   ", "\n\n\n", "a\r\n\r\nb", "\t\tx\t",
         "a\u00a0b\u3000c\u2003\u2003d", "a\u0085b\u180ec\u200bd", "<|endoftext|>", "a<|endoftext|>b", "x" * 100, " " * 50,
         "=" * 40, "ab" * 60, "snake_case camelCase kebab-case", "http://example.org/?q=1&r=2#x", "if (a < b) { return; }",
         "\U00031350\U0002ebf0\U00016100", "ſ K Å ß ẞ ﬁ"]
broken = [b"\xff", b"\xff\xfe", b"a\xffb", b" \xff", b"\xc3", b"\xc3(", b"\xe2\x82", b"\xed\xa0\x80", b"\xf4\x90\x80\x80",
          b"\xc0\xaf", b"\x80\x80 x", "ä".encode("latin-1"), b"caf\xe9 au lait", b"'\xff's", b"12\xff34", b"  \xff  ",
          b"\xf0\x9f\x98", b"\xf0\x9f\x98\x80\xf0\x9f", bytes(range(256)), bytes(range(255, -1, -1))]


def of_bytes(ranks, data):
    """Bytes that are not UTF-8, as lone surrogates: neither letter nor number nor space."""
    words = regex.findall(GPT2, data.decode(errors="surrogateescape"))
    return [i for w in words for i in ranks._core_bpe.encode_single_piece(w.encode(errors="surrogateescape"))]


def vectors(folder):
    path = os.path.join(folder, "tokenizer.json")
    model = json.load(open(path, encoding="utf-8"))["model"]
    hf, ranks = Tokenizer.from_file(path), by_tiktoken(model["vocab"])
    words = [as_bytes(k).decode(errors="ignore") for k in model["vocab"] if not k.startswith("<|")]
    texts = fixed + [t[:60] for t in strings(400 - len(fixed) - len(broken), 2, [w for w in words if w])]
    with open(os.path.join(folder, "strings.jsonl"), "w") as f:
        for data in [t.encode() for t in texts] + broken:
            ids = of_bytes(ranks, data)
            if data not in broken:
                text = data.decode()
                assert ids == ranks.encode_ordinary(text), repr(text)
                if "<|endoftext|>" not in text:  # which tokenizers finds in texts
                    assert ids == hf.encode(text, add_special_tokens=False).ids, repr(text)
            f.write(json.dumps({"base64": base64.b64encode(data).decode(), "bytes": len(data), "ids": ids}) + "\n")


if sys.argv[1] == "vectors":
    vectors(sys.argv[2])
else:
    sys.exit(1 if compare(sys.argv[2], sys.argv[3], int(sys.argv[4])) else 0)
