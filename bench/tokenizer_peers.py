"""Runs the contenders of bench/tokenizer: tokenizer_peers.py SCION FOLDER TEXT ROUNDS"""
import json, os, re, subprocess, statistics, sys, time

os.environ["TOKENIZERS_PARALLELISM"] = "false"
import tiktoken, tokenizers
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

scion, folder, path, rounds = sys.argv[1:4] + [int(sys.argv[4])]
GPT2 = r"""'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"""
printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
byte_of = {chr(b): b for b in printable}
byte_of |= {chr(256 + i): b for i, b in enumerate(b for b in range(256) if b not in printable)}


def one_core():
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})


def clocks(work):
    start, cpu = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - start, time.process_time() - cpu


def encode_scion(file):
    out = subprocess.run([scion, "tokenizer", "encode", "--time", "tokenizer=" + os.path.join(folder, "gpt2"), file],
                         capture_output=True, check=True, preexec_fn=one_core).stdout.decode()
    return tuple(float(x) for x in re.search(r"([\d.]+) s, ([\d.]+) s of", out).groups())


def pieces(text, size=1 << 20):
    """Of about a megabyte, cut before a line: a list of the tokens of a whole text would fill the memory."""
    at = 0
    while at < len(text):
        end = text.find("\n", at + size) if at + size < len(text) else -1
        end = len(text) if end < 0 else end
        yield text[at:end]
        at = end


def contenders():
    vocab = json.load(open(os.path.join(folder, "gpt2", "encoder.json"), encoding="utf-8"))
    lines = open(os.path.join(folder, "gpt2", "vocab.bpe"), encoding="utf-8").read().split("\n")[1:]
    ranks = {bytes(byte_of[c] for c in k): v for k, v in vocab.items() if k != "<|endoftext|>"}
    tik = tiktoken.Encoding("gpt2", pat_str=GPT2, mergeable_ranks=ranks, special_tokens={})
    hf = Tokenizer(models.BPE(vocab, [tuple(l.split()) for l in lines if l]))
    hf.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    return {"tiktoken " + tiktoken.__version__: lambda t: [len(tik.encode_ordinary(p)) for p in pieces(t)],
            "tokenizers " + tokenizers.__version__: lambda t: [len(hf.encode(p).ids) for p in pieces(t)]}


def race(name, file, others, others_share=1):
    """others_share: of the text, for those that would take minutes."""
    text = open(file, encoding="utf-8").read()
    size = os.path.getsize(file)
    part = text[:int(len(text) * others_share)]
    part_size = len(part.encode())
    results = {"scion": [], **{k: [] for k in others}}
    for _ in range(rounds):
        results["scion"].append((size, *encode_scion(file)))
        for k, encode in others.items():
            results[k].append((part_size, *clocks(lambda: encode(part))))
    print(f"\n{name}, {size / 1e6:.1f} MB, one core")
    print("| | MB/s | MB/s of processor time | ms per MB |\n|---|---|---|---|")
    for k, runs in results.items():
        wall, cpu = (statistics.median(n / 1e6 / r[i] for n, *r in runs) for i in (0, 1))
        print(f"| {k} | {wall:.1f} | {cpu:.1f} | {1000 / cpu:.1f} |", flush=True)


def learn(file):
    out = os.path.join(folder, "learned.json")
    results = {"scion": [], "tokenizers": []}
    for _ in range(rounds):
        start, before = time.perf_counter(), os.times()
        subprocess.run([scion, "tokenizer", "train", file, "vocab=4096", "threads=2", "out=" + out], check=True,
                       capture_output=True)
        after = os.times()
        results["scion"].append((time.perf_counter() - start, after.children_user - before.children_user))
        os.environ.update(TOKENIZERS_PARALLELISM="true", RAYON_NUM_THREADS="2")
        t = Tokenizer(models.BPE())
        t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        trainer = trainers.BpeTrainer(vocab_size=4095, min_frequency=2, show_progress=False,
                                      initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
        texts = list(pieces(open(file, encoding="utf-8").read()))
        results["tokenizers"].append(clocks(lambda: t.train_from_iterator(texts, trainer)))
    same = json.load(open(out, encoding="utf-8"))["model"]["merges"] == [" ".join(m) for m in json.loads(t.to_str())["model"]["merges"]]
    print(f"\na vocabulary of 4096 from {os.path.getsize(file) / 1e6:.1f} MB, two cores (the merges are "
          f"{'the same' if same else 'NOT the same'})")
    print("| | s | s of processor time |\n|---|---|---|")
    for k, runs in results.items():
        print(f"| {k} | {statistics.median(r[0] for r in runs):.1f} | {statistics.median(r[1] for r in runs):.1f} |", flush=True)


letters = os.path.join(folder, "letters.txt")
with open(letters, "w") as f:
    f.write(1000000 * "a")
learn(path)
one_core()
others = contenders()
race("GPT-2's vocabulary, " + os.path.basename(path), path, others, 0.2)
race("a megabyte of one letter", letters, others)
