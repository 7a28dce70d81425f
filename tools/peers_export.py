#!/usr/bin/env python3
"""Opens exported models with transformers, gguf, and xllamacpp, which contains llama.cpp, and compares them with this
program.

    peers_export.py PATH-OF-SCION PATH-OF-TEST_LOGITS TEXT

Trains small models on the text: tied and untied, four activations, four tokenizers. Logits must be equal to 1e-4, tokens
and greedy text the same; in llama.cpp the probabilities of the next token likewise. Exits with 1 on a difference."""
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
RUNS |= {"bpe": ["tokenizer=bpe", "vocab=1024", "activation=scaled_relu2"], "bytes": ["tokenizer=bytes", "activation=scaled_relu2"],
         "wide": ["data=wide.txt", "activation=scaled_relu2"], "base": ["rotary_base=500", "activation=scaled_relu2", "head_size=32"]}
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




def compare_llama(path, model, text, ids):
    """Tokens of a text in llama.cpp, and the largest difference of a log-probability after 40 beginnings of the text."""
    p = xllamacpp.CommonParams()
    p.model.path, p.n_ctx, p.n_batch, p.n_parallel, p.warmup, p.verbosity = path, 64, 64, 1, False, -1
    p.cache_type_k = p.cache_type_v = xllamacpp.ggml_type.GGML_TYPE_F32
    p.flash_attn_type = xllamacpp.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_DISABLED
    server = xllamacpp.Server(p)

    def post(path, **what):
        request = urllib.request.Request(server.listening_address + path, json.dumps(what).encode(), {"Content-Type": "application/json"})
        return json.load(urllib.request.urlopen(request))

    if post("/tokenize", content=text, add_special=True)["tokens"] != ids:
        fault(f"{path}: tokens")
    error = loss = mine = 0
    for k in range(40):
        prompt, target = ids[k * 20:k * 20 + 2 + k], ids[k * 20 + 2 + k]
        answer = post("/completion", prompt=prompt, n_predict=1, n_probs=model.config.vocab_size, temperature=0, cache_prompt=False)
        theirs = {e["id"]: e["logprob"] for e in answer["completion_probabilities"][0]["top_logprobs"]}
        with torch.no_grad():
            ours = torch.log_softmax(model(torch.tensor([prompt])).logits[0, -1].double(), -1).numpy()
        error = max(error, max(abs(theirs[i] - ours[i]) for i in theirs))
        loss, mine = loss - theirs[target] / 40, mine - ours[target] / 40
    if not error <= 1e-4:
        fault(f"{path}: log-probabilities differ by {error}")
    return f"llama.cpp: {len(ids)} tokens the same, log-probabilities differ by {error:.1e}, loss {loss:.6f} of {mine:.6f}"


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
        line = f"{run}: {len(mine)} tokens the same, logits differ by {error:.1e} of {size:.1f}, greedy text of {len(a)} characters the same"
        if "relu2" in model.config.hidden_act:
            call(scion, "export", run, f"out={run}.gguf", "format=gguf", "type=float32")
            line += "; gguf reads {} fields, {} tensors".format(*compare_gguf(f"{run}.gguf", model))
        print(line, flush=True)
        if "relu2" in model.config.hidden_act:
            part = learned[:10000]
            print(" ", compare_llama(f"{run}.gguf", model, part, ours(run, part)), flush=True)
sys.stdout.flush()
os.chdir("/")
os._exit(1 if faults else 0)  # the servers have threads that do not end
