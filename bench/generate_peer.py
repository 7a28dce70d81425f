"""Tokens a second of llama.cpp, as the package xllamacpp contains it, on a GGUF file: a prompt of 512 tokens, and tokens
written after one token and after 976. generate_peer.py FILE THREADS [f16|f32: the cache]; prints three numbers."""

import json
import statistics
import sys
import urllib.request

import xllamacpp

path, threads, cache = sys.argv[1], int(sys.argv[2]), sys.argv[3] if len(sys.argv) > 3 else "f16"
p = xllamacpp.CommonParams()
p.model.path, p.n_ctx, p.n_batch, p.n_ubatch, p.n_parallel, p.warmup, p.verbosity = path, 1024, 512, 512, 1, True, -1
p.cpuparams.n_threads = p.cpuparams_batch.n_threads = threads
p.cache_type_k = p.cache_type_v = getattr(xllamacpp.ggml_type, f"GGML_TYPE_{cache.upper()}")
server = xllamacpp.Server(p)


def timings(tokens, written):
    what = {"prompt": [1 + i * 7919 % 200 for i in range(tokens)], "n_predict": written, "temperature": 0, "ignore_eos": True,
            "cache_prompt": False}
    request = urllib.request.Request(server.listening_address + "/completion", json.dumps(what).encode(),
                                     {"Content-Type": "application/json"})
    return json.load(urllib.request.urlopen(request))["timings"]


timings(64, 4)
rows = [(timings(512, 1)["prompt_per_second"], timings(1, 40)["predicted_per_second"], timings(976, 40)["predicted_per_second"])
        for _ in range(3)]
print(*(f"{statistics.median(column):.2f}" for column in zip(*rows)))
