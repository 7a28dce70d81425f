#!/usr/bin/env python3
"""Opens exported models with transformers, gguf, and xllamacpp, which contains llama.cpp, and compares them with this
program.

    peers_export.py PATH-OF-SCION PATH-OF-TEST_LOGITS TEXT

Trains small models on the text: tied and untied, all activations, four tokenizers. In float32, logits must be equal to 1e-4,
tokens and greedy text the same; in llama.cpp log-probabilities of the next token likewise, and the loss of `scion eval` to five
digits. Folders in bfloat16 must have the rounded weights, and logits within 2 % of the largest. Files in bfloat16 and q8_0 must
have the loss to ROUNDED: llama.cpp rounds activations to the same types, which no other program does. Exits with 1 on a
difference."""
import importlib.metadata
import json
import os
import subprocess
import sys
import tempfile
import urllib.request

import gguf
import numpy as np
import torch
import transformers
import xllamacpp
from transformers import AutoModelForCausalLM, AutoTokenizer

scion, logits_of, text = (os.path.abspath(p) for p in sys.argv[1:4])
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ.setdefault("SCION_PRESETS", os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "presets"))
transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()
torch.set_num_threads(1)

TINY = "layers=2 width=64 head_size=16 block=64 batch=8 steps=60 eval_every=60 lr=2^-6 threads=1 log_every=0 eval_tokens=4096".split()
RUNS = {f"{f}-{'tied' if tied else 'untied'}": [f"activation={f}", *(["tied=yes", "norms=shared"] if tied else [])]
        for f in ("relu2", "scaled_relu2", "gelu", "sqrt2_gelu") for tied in (False, True)}
RUNS |= {f: [f"activation={f}"] for f in ("relu", "scaled_relu", "tanh")}
RUNS |= {"bpe": ["tokenizer=bpe", "vocab=1024", "activation=scaled_relu2"], "bytes": ["tokenizer=bytes", "activation=scaled_relu2"],
         "wide": ["data=wide.txt", "activation=scaled_relu2"], "base": ["rotary_base=500", "activation=scaled_relu2", "head_size=32"]}
ROUNDED = {"bf16": 2e-3, "q8_0": 1e-2}  # of a loss of 2 to 5 nats
WINDOW = 32  # tokens; llama.cpp takes prompts that are shorter than the context of 64
faults = 0


def fault(what):
    global faults
    faults += 1
    print("DIFFERENT", what)


def call(*arguments, **options):
    return subprocess.run([*arguments], check=True, capture_output=True, **options).stdout


def ours(run, text):
    """Tokens of a text by the run's tokenizer."""
    with open("part.txt", "w", encoding="utf-8", newline="") as file:
        file.write(text)
    return [int(i) for i in call(scion, "tokenizer", "encode", f"tokenizer={run}", "part.txt").split()]


def compare_logits(run, model, ids):
    """Logits of the first batch of the validation part, which is the end of the text."""
    block = model.config.max_position_embeddings
    batch = 8
    got = np.frombuffer(call(logits_of, f"{run}/best.safetensors", f"batch={batch}"), np.float32).reshape(batch, block, -1)
    first = len(ids) - int(0.1 * len(ids))
    inputs = torch.tensor([ids[first + i * block:first + (i + 1) * block] for i in range(batch)])
    with torch.no_grad():
        theirs = model(inputs).logits.numpy()
    return float(np.abs(got - theirs).max()), float(np.abs(got).max())


def greedy(run, model, tokenizer, prompt):
    mine = call(scion, "sample", run, f"prompt={prompt}", "tokens=40", "temperature=0", "--quiet").decode(errors="replace")
    inputs = tokenizer(prompt, return_tensors="pt").input_ids
    out = model.generate(inputs, max_new_tokens=40, do_sample=False, use_cache=True)[0, inputs.shape[1]:]
    return mine.rstrip("\n"), tokenizer.decode(out, skip_special_tokens=True).rstrip("\n")


def compare_gguf(path, model):
    reader = gguf.GGUFReader(path)
    weights = {t.name: t for t in reader.tensors}
    for name, mine in (("token_embd", model.model.embed_tokens), ("blk.1.ffn_down", model.model.layers[1].mlp.down_proj),
                       ("blk.0.attn_q_norm", model.model.layers[0].self_attn.q_norm)):
        t = weights[name + ".weight"]
        x = gguf.dequantize(t.data, t.tensor_type).reshape(mine.weight.shape)
        if not np.array_equal(x, mine.weight.detach().numpy()):
            fault(f"{path}: {name}")
    return len(reader.fields), len(weights)


def compare_half(run, model):
    """The folder in bfloat16: weights rounded to nearest, and the largest difference of logits to those in float32."""
    call(scion, "export", run, f"out={run}-half", "format=hf", "type=bf16")
    half = AutoModelForCausalLM.from_pretrained(f"{run}-half", dtype=torch.float32)
    theirs = dict(half.named_parameters())
    for name, x in model.named_parameters():
        if not torch.equal(theirs[name], x.bfloat16().float()):
            fault(f"{run}: {name} in bfloat16")
    ids = torch.arange(model.config.vocab_size)[None, :64] % model.config.vocab_size
    with torch.no_grad():
        a, b = model(ids).logits, half(ids).logits
    error, size = float((a - b).abs().max()), float(a.abs().max())
    if not error <= 0.02 * size:
        fault(f"{run}: logits in bfloat16 differ by {error} of {size}")
    return error / size


class Llama:
    """A file in llama.cpp, with a cache in float32."""

    def __init__(self, path, vocab):
        p = xllamacpp.CommonParams()
        p.model.path, p.n_ctx, p.n_batch, p.n_parallel, p.warmup, p.verbosity = path, 256, 256, 1, False, -1
        p.cache_type_k = p.cache_type_v = xllamacpp.ggml_type.GGML_TYPE_F32
        p.flash_attn_type = xllamacpp.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_DISABLED
        self.server, self.vocab = xllamacpp.Server(p), vocab

    def post(self, path, **what):
        request = urllib.request.Request(self.server.listening_address + path, json.dumps(what).encode(),
                                         {"Content-Type": "application/json"})
        return json.load(urllib.request.urlopen(request))

    def tokens(self, text):
        return self.post("/tokenize", content=text, add_special=True)["tokens"]

    def log_probabilities(self, prompt):
        answer = self.post("/completion", prompt=prompt, n_predict=1, n_probs=self.vocab, temperature=0, cache_prompt=False)
        return {e["id"]: e["logprob"] for e in answer["completion_probabilities"][0]["top_logprobs"]}

    def loss(self, ids):
        """Mean over whole windows, as `scion eval block=WINDOW` measures it."""
        windows = (len(ids) - 1) // WINDOW
        total = 0
        for first in range(0, windows * WINDOW, WINDOW):
            for k in range(1, WINDOW + 1):
                total -= self.log_probabilities(ids[first:first + k])[ids[first + k]]
        return total / (windows * WINDOW)


def our_loss(run, text):
    with open("measured.txt", "w", encoding="utf-8", newline="") as file:
        file.write(text)
    answer = call(scion, "eval", run, "data=measured.txt", "part=all", f"block={WINDOW}", "--json")
    return json.loads(answer)["loss"]


def compare_llama(run, model, text, ids):
    """Tokens of a text in llama.cpp, and the largest difference of a log-probability after 40 beginnings of the text."""
    llama = Llama(f"{run}.gguf", model.config.vocab_size)
    if llama.tokens(text) != ids:
        fault(f"{run}: tokens")
    error = 0
    for k in range(40):
        prompt = ids[k * 20:k * 20 + 2 + k]
        theirs = llama.log_probabilities(prompt)
        with torch.no_grad():
            ours = torch.log_softmax(model(torch.tensor([prompt])).logits[0, -1].double(), -1).numpy()
        error = max(error, max(abs(theirs[i] - ours[i]) for i in theirs))
    if not error <= 1e-4:
        fault(f"{run}: log-probabilities differ by {error}")
    return f"llama.cpp: {len(ids)} tokens the same, log-probabilities differ by {error:.1e}"


def compare_losses(run, model, text, ids):
    """The loss of a text here and in llama.cpp, for each type of file. Here a text begins with the separator."""
    if model.config.eos_token_id is not None:
        ids = [model.config.eos_token_id, *ids]
    mine, parts = our_loss(run, text), []
    for kind in ("float32", "bf16", "q8_0"):
        path = f"{run}.gguf" if kind == "float32" else f"{run}-{kind}.gguf"
        if kind != "float32":
            call(scion, "export", run, f"out={path}", "format=gguf", f"type={kind}")
        theirs = Llama(path, model.config.vocab_size).loss(ids)
        same = f"{theirs:.5g}" == f"{mine:.5g}" or abs(theirs - mine) < 5e-6 * mine
        if not (same if kind == "float32" else abs(theirs - mine) <= ROUNDED[kind]):
            fault(f"{path}: loss {theirs}, here {mine}")
        parts.append(f"{kind} {theirs:.6f}")
    return f"loss of {(len(ids) - 1) // WINDOW * WINDOW} tokens by scion eval {mine:.6f}; in llama.cpp {', '.join(parts)}"


with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    whole = open(text, encoding="utf-8").read()[:200000]
    open("text.txt", "w", encoding="utf-8").write(whole)
    wide = "".join(f"{i} naïve café, 5 €, 你好 😀 Ωμέγα\n" for i in range(1500))
    open("wide.txt", "w", encoding="utf-8").write(wide)
    print(*(f"{p} {importlib.metadata.version(p)}" for p in ("transformers", "torch", "tokenizers", "safetensors", "gguf", "xllamacpp")), sep=", ")
    for run, options in RUNS.items():
        call(scion, "train", "data=text.txt", *TINY, *options, f"out={run}")
        call(scion, "export", run, f"out={run}-hf", "format=hf")
        model, tokenizer = AutoModelForCausalLM.from_pretrained(f"{run}-hf"), AutoTokenizer.from_pretrained(f"{run}-hf")
        learned = wide if run == "wide" else whole
        mine, theirs = ours(run, learned), tokenizer(learned, add_special_tokens=True).input_ids
        if mine != theirs:
            fault(f"{run}: tokens")
        if not learned.startswith(tokenizer.decode(mine[:2000]).rstrip("\ufffd")):  # the cut may be inside a character
            fault(f"{run}: decoded text")
        error, size = compare_logits(run, model, mine)
        if not error <= 1e-4:
            fault(f"{run}: logits")
        a, b = greedy(run, model, tokenizer, learned[:12])
        if a != b:
            fault(f"{run}: greedy text {a!r} {b!r}")
        line = (f"{run}: {len(mine)} tokens the same, logits differ by {error:.1e} of {size:.1f}, greedy text of {len(a)} "
                f"characters the same, logits in bfloat16 within {100 * compare_half(run, model):.1f} %")
        squared = model.config.hidden_act == "relu2"
        if squared:
            call(scion, "export", run, f"out={run}.gguf", "format=gguf", "type=float32")
            line += "; gguf reads {} fields, {} tensors".format(*compare_gguf(f"{run}.gguf", model))
        print(line, flush=True)
        if squared:
            part = learned[:10000]
            print(" ", compare_llama(run, model, part, ours(run, part)), flush=True)
        if run in ("bpe", "scaled_relu2-untied"):
            part = learned[-500:] if run != "bpe" else learned[-1200:]
            print(" ", compare_losses(run, model, part, ours(run, part)), flush=True)
sys.stdout.flush()
os.chdir("/")
os._exit(1 if faults else 0)  # the servers have threads that do not end
