"""Scion under HF Trainer, Lightning and Accelerate: each trains, saves, and continues from what it saved."""
import pytest

torch = pytest.importorskip("torch")

from libscion.torch import Scion, roles
from torch import nn


class Tokens(torch.utils.data.Dataset):
    """A permutation of 16 tokens to learn."""

    def __len__(self):
        return 64

    def __getitem__(self, i):
        token = i % 16
        return {"input_ids": torch.tensor([token]), "labels": torch.tensor([(token * 7 + 3) % 16])}


class Small(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.embedding, self.hidden = nn.Embedding(16, 8), nn.Linear(8, 16)
        self.norm, self.head = nn.LayerNorm(16), nn.Linear(16, 16)

    def forward(self, input_ids, labels=None):
        logits = self.head(self.norm(torch.tanh(self.hidden(self.embedding(input_ids)))))
        loss = None if labels is None else nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten())
        return {"loss": loss, "logits": logits}


def test_hf_trainer(tmp_path):
    """Trainer makes groups of its own (with and without weight decay): the table gives each parameter its role."""
    transformers = pytest.importorskip("transformers")

    def trainer(epochs):
        model = Small()
        arguments = transformers.TrainingArguments(
            output_dir=str(tmp_path), num_train_epochs=epochs, per_device_train_batch_size=16, learning_rate=0.05,
            lr_scheduler_type="linear", save_strategy="epoch", logging_strategy="no", report_to=[], use_cpu=True, seed=0,
            disable_tqdm=True)
        return transformers.Trainer(model=model, args=arguments, train_dataset=Tokens(),
                                    optimizer_cls_and_kwargs=(Scion, {"lr": 0.05, "roles": roles(model)}))

    first = trainer(12)
    result = first.train()
    opt = getattr(first.optimizer, "optimizer", first.optimizer)
    assert isinstance(opt, Scion) and result.training_loss < 2.0
    assert opt.state[first.model.hidden.weight]["step"] == 48
    lines = {line.split()[0]: line.split() for line in opt.table().splitlines()[1:]}
    assert lines["embedding.weight"][2:4] == ["onehot", "colnorm"] and lines["head.weight"][2:4] == ["output", "sign"]
    again = trainer(14)
    again.train(resume_from_checkpoint=True)
    opt = getattr(again.optimizer, "optimizer", again.optimizer)
    assert opt.state[again.model.hidden.weight]["step"] == 56


def test_roles_of_gpt2():
    """Its Conv1D keeps d_in x d_out, q, k and v are fused, and the last layer shares the embedding's weight."""
    transformers = pytest.importorskip("transformers")
    model = transformers.GPT2LMHeadModel(transformers.GPT2Config(vocab_size=50, n_positions=8, n_embd=16, n_layer=1, n_head=2))
    found = {name: (about["role"], about["norm"], about["transposed"], about["split"]) for name, _, about in roles(model).rows()}
    assert found["transformer.wte.weight"] == ("output", "sign", False, None)
    assert found["transformer.wpe.weight"][0] == "vector"
    assert found["transformer.h.0.attn.c_attn.weight"] == ("hidden", "spectral", True, (1, 3))
    assert found["transformer.h.0.mlp.c_fc.weight"] == ("hidden", "spectral", True, None)
    assert found["transformer.ln_f.weight"] == ("normalization", "rms", False, None)
    opt = Scion(roles(model), lr=0.05)
    model(input_ids=torch.tensor([[1, 2, 3]]), labels=torch.tensor([[1, 2, 3]])).loss.backward()
    opt.step()
    assert all(opt.state[p]["step"] == 1 for p in model.parameters())


def test_lightning(tmp_path):
    lightning = pytest.importorskip("lightning")

    class Module(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.model, self.losses = Small(), []

        def training_step(self, batch, _):
            loss = self.model(**batch)["loss"]
            self.losses.append(loss.item())
            return loss

        def configure_optimizers(self):
            opt = Scion(roles(self.model), lr=0.05)
            return {"optimizer": opt, "lr_scheduler": torch.optim.lr_scheduler.LambdaLR(opt, lambda k: 1 - k / 20)}

    data = torch.utils.data.DataLoader(Tokens(), batch_size=16)
    settings = dict(accelerator="cpu", logger=False, enable_progress_bar=False, enable_model_summary=False,
                    default_root_dir=str(tmp_path))
    module = Module()
    trainer = lightning.Trainer(max_epochs=12, **settings)
    trainer.fit(module, data)
    assert module.losses[-1] < module.losses[0] / 10
    trainer.save_checkpoint(tmp_path / "last.ckpt")
    other = Module()
    resumed = lightning.Trainer(max_epochs=13, **settings)
    resumed.fit(other, data, ckpt_path=str(tmp_path / "last.ckpt"), weights_only=False)
    assert other.optimizers().state[other.model.hidden.weight]["step"] == 52 and other.losses[0] < module.losses[0] / 10


def test_accelerate(tmp_path):
    accelerate = pytest.importorskip("accelerate")
    accelerator = accelerate.Accelerator(cpu=True)
    model = Small()
    opt = Scion(roles(model), lr=0.05)
    data = torch.utils.data.DataLoader(Tokens(), batch_size=16)
    model, opt, data = accelerator.prepare(model, opt, data)

    def epoch():
        losses = []
        for batch in data:
            opt.zero_grad()
            loss = model(**batch)["loss"]
            accelerator.backward(loss)
            opt.step()
            losses.append(loss.item())
        return losses

    first = [epoch() for _ in range(6)]
    accelerator.save_state(str(tmp_path))
    then = [epoch() for _ in range(6)]
    assert then[-1][-1] < first[0][0] / 10
    accelerator.load_state(str(tmp_path))
    assert epoch() == then[0]
