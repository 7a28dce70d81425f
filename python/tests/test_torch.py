"""libscion.torch.Scion keeps the contract of torch.optim.Optimizer; roles; the functional form; bad input."""
import copy
import io
import os
import pickle
import warnings

import pytest

torch = pytest.importorskip("torch")

import libscion
from libscion.torch import Scion, functional, roles
from torch import nn


def network(seed=0, dtype=torch.float32):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Embedding(20, 8), nn.Linear(8, 16), nn.LayerNorm(16), nn.Linear(16, 20)).to(dtype)


TOKENS = torch.arange(20)
TARGETS = (TOKENS * 7 + 3) % 20


def train(model, opt, steps, scale=1.0):
    losses = []
    for _ in range(steps):
        opt.zero_grad()
        loss = nn.functional.cross_entropy(model(TOKENS).float(), TARGETS)
        (loss * scale).backward()
        opt.step()
        losses.append(loss.item())
    return losses


def same(a, b):
    return all(torch.equal(x, y) for x, y in zip(a.parameters(), b.parameters()))


def test_learns_and_keeps_the_balls():
    model = network()
    opt = Scion(roles(model), lr=0.05, polar="converged")
    opt.init_weights(1)
    losses = train(model, opt, 60)
    assert losses[-1] < losses[0] / 20
    for row in opt.inspect(norms=True):
        assert row["weight_norm"] <= row["radius"] * (1 + 1e-4) or row["norm"] == "rms", row


@pytest.mark.parametrize("make", [lambda m: m.parameters(), lambda m: m.named_parameters(), lambda m: list(m.parameters()),
                                  lambda m: [{"params": m[0].parameters(), "lr": 0.01}, {"params": m[1:].parameters()}],
                                  roles], ids=["iterator", "named", "list", "groups", "roles"])
def test_forms_of_params(make):
    model = network()
    opt = Scion(make(model), lr=0.05)
    losses = train(model, opt, 10)
    assert losses[-1] < losses[0]
    assert sum(len(g["params"]) for g in opt.param_groups) == 7
    assert "parameter" in opt.table()


def test_names_give_roles():
    opt = Scion([("wte.weight", nn.Parameter(torch.zeros(9, 4))), ("h.ln_1.weight", nn.Parameter(torch.zeros(4))),
                 ("h.mlp.weight", nn.Parameter(torch.zeros(4, 4))), ("wpe.weight", nn.Parameter(torch.zeros(9, 4))),
                 ("lm_head.weight", nn.Parameter(torch.zeros(9, 4)))])
    lines = [line.split()[2] for line in opt.table().splitlines()[1:]]
    assert lines == ["onehot", "normalization", "hidden", "vector", "output"]


def test_closure_returns_the_loss_with_gradients_enabled():
    model = network()
    opt = Scion(model.parameters(), lr=0.05)

    def closure():
        opt.zero_grad()
        loss = nn.functional.cross_entropy(model(TOKENS), TARGETS)
        loss.backward()
        return loss

    first = opt.step(closure)
    assert first.requires_grad and opt.step(closure) < first


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("rule", ["scion", "adamw", "muon"])
def test_state_dict_continues_bit_for_bit(rule, dtype):
    a, b = network(dtype=dtype), network(1, dtype=dtype)
    opt = Scion(roles(a), lr=0.02, rule=rule, seed=3)
    train(a, opt, 3)
    file = io.BytesIO()
    torch.save({"model": a.state_dict(), "optimizer": opt.state_dict()}, file)
    file.seek(0)
    saved = torch.load(file, weights_only=True)
    b.load_state_dict(saved["model"])
    other = Scion(roles(b), lr=1.0, rule=rule, seed=3)
    other.load_state_dict(state_dict=saved["optimizer"])  # DCP passes it by keyword
    assert other.param_groups[0]["lr"] == 0.02
    for p in b.parameters():
        assert other.state[p]["average"].dtype is torch.float32 and other.state[p]["step"] == 3
    train(a, opt, 3)
    train(b, other, 3)
    assert same(a, b)


def test_averages_are_what_the_library_uses():
    p = nn.Parameter(torch.zeros(3, 3))
    opt = Scion([p], momentum=0.5)
    p.grad = torch.ones(3, 3)
    opt.step()
    average = opt.state[p]["average"]
    assert torch.equal(average, torch.full((3, 3), 0.5))
    opt.step()
    assert opt.state[p]["average"] is average and torch.equal(average, torch.full((3, 3), 0.75))


def test_state_that_callers_replace_is_followed():
    """As people do who move states between devices, or clear them."""
    p = nn.Parameter(torch.zeros(3, 3))
    opt = Scion([p], momentum=0.5)
    p.grad = torch.ones(3, 3)
    opt.step()
    opt.state[p]["average"] = torch.full((3, 3), 3.0)
    opt.step()
    assert torch.equal(opt.state[p]["average"], torch.full((3, 3), 2.0))
    opt.state[p]["average"].data = torch.full((3, 3), 5.0)
    opt.step()
    assert torch.equal(opt.state[p]["average"], torch.full((3, 3), 3.0))
    opt.state.clear()
    opt.step()
    assert torch.equal(opt.state[p]["average"], torch.full((3, 3), 0.5)) and opt.state[p]["step"] == 1


@pytest.mark.skipif(not os.path.exists("/proc/self/maps"), reason="no /proc here")
def test_one_pool_of_threads():
    """torch and the library share a libgomp, whichever was loaded first."""
    with open("/proc/self/maps") as maps:
        assert len({line.split()[-1] for line in maps if "libgomp" in line}) == 1


def test_autograd_sees_that_weights_have_changed():
    model = network()
    opt = Scion(model.parameters())
    loss = nn.functional.cross_entropy(model(TOKENS), TARGETS)
    loss.backward(retain_graph=True)
    opt.step()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_hooks():
    model, calls = network(), []
    opt = Scion(model.parameters())
    opt.register_step_pre_hook(lambda *a: calls.append("before"))
    opt.register_step_post_hook(lambda *a: calls.append("after"))
    opt.register_state_dict_pre_hook(lambda o: calls.append("save"))
    opt.register_load_state_dict_pre_hook(lambda o, d: calls.append("load"))
    opt.register_load_state_dict_post_hook(
        lambda o: calls.append(o.state[model[1].weight]["average"].dtype))
    train(model, opt, 1)
    opt.load_state_dict(opt.state_dict())
    assert calls == ["before", "after", "save", "load", torch.float32]


def test_add_param_group_and_schedulers():
    a = network()
    opt = Scion(a[:2].parameters(), lr=0.05)
    schedule = torch.optim.lr_scheduler.LambdaLR(opt, lambda k: 1 - k / 10)
    train(a, opt, 1)
    schedule.step()
    assert opt.param_groups[0]["lr"] == 0.05 * 0.9
    with pytest.warns(UserWarning, match="momentum=0.9 is the weight of the new gradient"):
        Scion(a[:2].parameters(), momentum=0.9)
    opt.add_param_group({"params": list(a[2:].parameters()), "radius": 2.0, "lr": 0.01})
    before = [p.detach().clone() for p in a[2:].parameters()]
    train(a, opt, 2)
    assert [group["steps"] for group in opt.param_groups] == [3, 3] and opt.state[a[3].weight]["step"] == 2
    assert all(not torch.equal(x, y) for x, y in zip(before, a[2:].parameters()))


@pytest.mark.parametrize("clone", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))], ids=["deepcopy", "pickle"])
def test_copies_continue_alike(clone):
    a = network()
    opt = Scion(roles(a), lr=0.05)
    train(a, opt, 2)
    b, other = clone((a, opt))
    train(a, opt, 2)
    train(b, other, 2)
    assert same(a, b) and other.options == opt.options


def test_maximize_is_the_negative_gradient():
    a, b = network(), network()
    opt, other = Scion(roles(a), lr=0.05), Scion(roles(b), lr=0.05, maximize=True)
    train(a, opt, 3)
    train(b, other, 3, scale=-1.0)
    assert same(a, b)
    for group in other.param_groups:
        group["maximize"] = False
    train(a, opt, 1)
    train(b, other, 1)
    assert same(a, b)


def test_lr_may_be_a_tensor():
    a, b = network(), network()
    train(a, Scion(roles(a), lr=0.0625), 3)
    train(b, Scion(roles(b), lr=torch.tensor(0.0625)), 3)
    assert same(a, b)


def test_grad_scaler():
    a, b = network(), network()
    opt, other = Scion(roles(a), lr=0.05), Scion(roles(b), lr=0.05)
    train(a, opt, 3)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10, growth_interval=100)
    for _ in range(3):
        other.zero_grad()
        scaler.scale(nn.functional.cross_entropy(b(TOKENS), TARGETS)).backward()
        scaler.step(other)
        scaler.update()
    assert same(a, b)
    kept = [p.detach().clone() for p in b.parameters()]
    b[1].weight.grad[0, 0] = float("inf")
    scaler.step(other)
    scaler.update()
    assert all(torch.equal(x, y) for x, y in zip(kept, b.parameters())) and scaler.get_scale() == 2.0**9


def test_none_gradients_are_skipped():
    model = network()
    opt = Scion(model.parameters(), lr=0.05)
    kept = model[3].weight.detach().clone()
    model(TOKENS).sum().backward()
    model[3].weight.grad = None
    opt.step()
    assert torch.equal(kept, model[3].weight) and model[3].weight not in opt.state
    model[3].weight.grad = torch.ones_like(kept)
    opt.step()
    assert not torch.equal(kept, model[3].weight) and opt.state[model[3].weight]["step"] == 1
    assert opt.state[model[1].weight]["step"] == 2
    empty = Scion(network().parameters())
    empty.step()
    assert not empty.state


def test_light_keeps_the_average_in_the_gradient():
    a, b = network(), network()
    opt, light = Scion(roles(a), lr=0.05), Scion(roles(b), lr=0.05, light=True)
    for _ in range(4):
        opt.zero_grad()
        nn.functional.cross_entropy(a(TOKENS), TARGETS).backward()
        opt.step()
        nn.functional.cross_entropy(b(TOKENS), TARGETS).backward()
        light.step()
        light.zero_grad(set_to_none=False)
    assert all(torch.allclose(x, y, atol=1e-3) for x, y in zip(a.parameters(), b.parameters()))
    assert all(set(light.state[p]) == {"step"} for p in b.parameters())
    with pytest.raises(ValueError, match="with light the gradients hold the averages"):
        light.zero_grad()
    b.zero_grad()
    nn.functional.cross_entropy(b(TOKENS), TARGETS).backward()
    with pytest.raises(ValueError, match="was replaced or set to None"):
        light.step()


def test_mars_needs_the_gradient_at_the_previous_weights():
    def loss(w):
        return ((w - 1) ** 2).sum()

    p = nn.Parameter(torch.zeros(3, 3))
    opt = Scion([p], lr=0.1, rule="mars", momentum=0.5, radius=10.0, polar="converged")
    for k in range(3):
        opt.zero_grad()
        loss(p).backward()
        here, at = p.grad.clone(), p.detach().clone()
        with opt.previous():
            if k > 0:
                assert not torch.equal(at, p)
            loss(p).backward()
        assert torch.equal(at, p) and torch.equal(here, p.grad)
        opt.step()
    # d of a gradient without noise is the gradient itself
    assert torch.allclose(opt.state[p]["average"], here, atol=1e-5)
    loss(p).backward()
    with pytest.raises(ValueError, match="with optimizer.previous"):
        opt.step()
    with pytest.raises(ValueError, match="keeps no previous weights"):
        with Scion([nn.Parameter(torch.zeros(2, 2))]).previous():
            pass


def test_functional_is_the_class():
    torch.manual_seed(0)
    p = [torch.randn(6, 4), torch.randn(6)]
    q = [nn.Parameter(x.clone()) for x in p]
    opt = Scion([{"params": [q[0]], "role": "hidden", "norm": "spectral"}, {"params": [q[1]], "role": "vector"}], lr=0.1)
    averages = [torch.zeros_like(x) for x in p]
    for k in range(3):
        grads = [torch.randn_like(x) for x in p]
        for x, g in zip(q, grads):
            x.grad = g.clone()
        opt.step()
        functional.scion(p, grads, averages, lr=0.1, role=["hidden", "vector"], routing="onehot", steps=k)
    assert all(torch.equal(x, y) for x, y in zip(p, q))
    assert all(torch.equal(d, opt.state[y]["average"]) for d, y in zip(averages, q))
    with pytest.raises(ValueError, match="role has 1 values, expected 2"):
        functional.scion(p, grads, averages, lr=0.1, role=["hidden"])


def test_storage_may_move():
    a, b = network(), network()
    opt, other = Scion(roles(a), lr=0.05), Scion(roles(b), lr=0.05)
    train(a, opt, 3)
    for _ in range(3):
        train(b, other, 1)
        for p in b.parameters():
            p.data = p.data.clone()
    assert same(a, b)
    b[1].weight.data = b[1].weight.data.bfloat16()
    b[1].weight.grad = torch.ones_like(b[1].weight)
    other.step()
    b[1].weight.data = torch.zeros(3, 3)
    b[1].weight.grad = torch.zeros(3, 3)
    with pytest.raises(ValueError, match=r"1.weight: its shape is \(3, 3\), but was \(16, 8\)"):
        other.step()


def test_a_weight_that_becomes_another_ones_storage_is_refused():
    p, q = nn.Parameter(torch.ones(3, 3)), nn.Parameter(torch.ones(3, 3))
    opt = Scion([("p", p), ("q", q)])
    p.grad, q.grad = torch.ones(3, 3), torch.ones(3, 3)
    opt.step()
    q.data = p.data
    with pytest.raises(ValueError, match="the weight of p overlaps the weight of q|the weight of q overlaps the weight of p"):
        opt.step()


def test_child_of_a_fork():
    model = network()
    opt = Scion(roles(model), lr=0.05, threads=2)
    train(model, opt, 2)
    twin, other = copy.deepcopy((model, opt))
    for p, q in zip(model.parameters(), twin.parameters()):
        q.grad = p.grad = torch.ones_like(p)
    other.step()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                opt.step()
            code = 0 if same(model, twin) else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.parametrize("message, make", [
    ("capturable=True", lambda p: Scion([p], capturable=True)),
    ("differentiable=True", lambda p: Scion([p], differentiable=True)),
    ("foreach=True", lambda p: Scion([p], foreach=True)),
    ("lr is -1", lambda p: Scion([p], lr=-1)),
    ("expected one", lambda p: Scion([p], lr=torch.ones(2))),
    ("rule is 'sion', expected one of scion", lambda p: Scion([p], rule="sion")),
    ("role is 'hiden'", lambda p: Scion([p], role="hiden")),
    ("radius", lambda p: Scion([p], radius=0.0)),
    ("weight_decay is 0.1, but rule scion has 1", lambda p: Scion([p], weight_decay=0.1)),
    ("more than one parameter group", lambda p: Scion([{"params": [p]}, {"params": [p]}])),
    ("twice in a group", lambda p: Scion([p, p])),
    ("float16, expected float32 or bfloat16", lambda p: Scion([nn.Parameter(p.half())])),
    ("float64", lambda p: Scion([nn.Parameter(p.double())])),
    ("at least one entry", lambda p: Scion([nn.Parameter(torch.zeros(0, 3))])),
    ("device meta", lambda p: Scion([nn.Parameter(torch.zeros(2, 3, device="meta"))])),
    ("empty parameter list", lambda p: Scion([])),
    ("momentum and vanishing", lambda p: Scion([p], momentum=0.1, vanishing=True)),
])
@pytest.mark.filterwarnings("ignore:optimizer contains a parameter group with duplicate")
def test_refused_when_it_is_made(message, make):
    with pytest.raises(ValueError, match=message):
        make(nn.Parameter(torch.ones(3, 3)))


def test_refused_in_a_step_and_nothing_changed():
    p = nn.Parameter(torch.ones(3, 3))
    opt = Scion([("head", p)])
    p.grad = torch.full((3, 3), float("nan"))
    with pytest.raises(libscion.NonFiniteError, match="head: the gradient holds NaN or Inf"):
        opt.step()
    assert torch.equal(p, torch.ones(3, 3)) and opt.state[p]["step"] == 0
    table = nn.Embedding(5, 3, sparse=True)
    table(torch.tensor([1])).sum().backward()
    with pytest.raises(ValueError, match="the gradient is sparse"):
        Scion(table.parameters()).step()
    with pytest.raises(ValueError, match="average has shape"):
        q = nn.Parameter(torch.ones(4, 4))
        other = Scion([q])
        p.grad = torch.ones(3, 3)
        opt.step()
        other.load_state_dict(opt.state_dict())
    with pytest.raises(ValueError, match="rule adamw has"):
        Scion([p], rule="adamw").load_state_dict(opt.state_dict())


def test_sharded_parameters_are_refused(tmp_path):
    import torch.distributed as dist
    from torch.distributed.tensor import Shard, distribute_tensor, init_device_mesh

    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/meet", rank=0, world_size=1)
    try:
        p = nn.Parameter(distribute_tensor(torch.ones(4, 4), init_device_mesh("cpu", (1,)), [Shard(0)]))
        with pytest.raises(ValueError, match="is a DTensor"):
            Scion([p])
    finally:
        dist.destroy_process_group()


def test_distributed_checkpoint(tmp_path):
    """DCP makes the state by a step with lr 0, then loads into it."""
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict

    a, b = network(), network(1)
    opt, other = Scion(roles(a), lr=0.05), Scion(roles(b), lr=0.05)
    train(a, opt, 3)
    model_state, opt_state = get_state_dict(a, opt)
    dcp.save({"model": model_state, "opt": opt_state}, checkpoint_id=tmp_path, no_dist=True)
    into_model, into_opt = get_state_dict(b, other)
    into = {"model": into_model, "opt": into_opt}
    dcp.load(into, checkpoint_id=tmp_path, no_dist=True)
    set_state_dict(b, other, model_state_dict=into["model"], optim_state_dict=into["opt"])
    assert same(a, b)
    train(a, opt, 2)
    train(b, other, 2)
    assert same(a, b)


# ---- Roles ---------------------------------------------------------------------------------------------------


def proposed(model, **more):
    return {name: (about["role"], about["norm"], about["radius"], about["transposed"], about["split"])
            for name, _, about in roles(model, **more).rows()}


def test_roles_of_a_gpt_with_tied_weights():
    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.ln_1, self.c_attn, self.c_proj = nn.LayerNorm(8), nn.Linear(8, 24, bias=False), nn.Linear(8, 8)

    model = nn.Module()
    model.wte, model.wpe, model.h = nn.Embedding(30, 8), nn.Embedding(5, 8), nn.ModuleList([Block()])
    model.lm_head = nn.Linear(8, 30, bias=False)
    model.lm_head.weight = model.wte.weight
    assert proposed(model) == {
        "wte.weight": ("output", "sign", 100.0, False, None),
        "wpe.weight": ("vector", "rms", 1.0, False, None),
        "h.0.ln_1.weight": ("normalization", "rms", 1.0, False, None),
        "h.0.ln_1.bias": ("normalization", "rms", 1.0, False, None),
        "h.0.c_attn.weight": ("hidden", "spectral", 1.0, False, (0, 3)),
        "h.0.c_proj.weight": ("hidden", "spectral", 1.0, False, None),
        "h.0.c_proj.bias": ("vector", "rms", 1.0, False, None),
    }
    changed = proposed(model, radius={"hidden": 3.0}, overrides={"h.0.c_attn.weight": {"split": (0, [8, 16])}})
    assert changed["h.0.c_attn.weight"] == ("hidden", "spectral", 3.0, False, (0, (8, 16)))
    with pytest.raises(ValueError, match="overrides name h.1"):
        roles(model, overrides={"h.1": {}})
    assert "2.309" not in str(roles(model)) and "3 along axis 0" in str(roles(model))
    opt = Scion(roles(model))
    for p in model.parameters():
        p.grad = torch.ones_like(p)
    opt.step()


def test_roles_of_an_image_network():
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Conv2d(4, 4, 3), nn.Flatten(), nn.Linear(4, 10))
    found = proposed(model)
    assert found["0.weight"][:2] == ("input", "spectral") and found["2.weight"][:2] == ("hidden", "spectral")
    assert found["1.weight"][0] == "normalization" and found["4.weight"] == ("output", "sign", 100.0, False, None)


def test_roles_of_recurrent_and_attention_modules():
    model = nn.ModuleList([nn.Embedding(9, 8), nn.LSTM(8, 8), nn.MultiheadAttention(8, 2), nn.Conv3d(2, 2, 3), nn.Linear(8, 9)])
    found = proposed(model)
    assert found["1.weight_ih_l0"][4] == (0, 4) and found["2.in_proj_weight"][4] == (0, 3)
    opt = Scion(roles(model))
    for p in model.parameters():
        p.grad = torch.randn_like(p)
    opt.step()
