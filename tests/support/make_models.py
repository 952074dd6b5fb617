#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the small TorchScript files that tests import."""

import pathlib
import struct
import sys
import typing
import zipfile

import torch


class Identity(torch.nn.Module):
    """Returns its input."""

    def forward(self, x):
        return x


class Affine(torch.nn.Module):
    """Multiplies rows of 4 numbers by a known matrix."""

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.arange(8.0).view(2, 4))
        self.register_buffer("shift", torch.tensor([10.0, 20.0]))
        self.register_buffer("count", torch.tensor(3))

    def forward(self, x):
        return x @ self.weight.t() + self.shift


class Tallying(torch.nn.Module):
    """Counts its runs by writing to a buffer beside its parameters."""

    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.zeros(4))

    def forward(self, x):
        self.count += 1
        return x + self.count


class Centred(torch.nn.Module):
    """Depends on the other rows of its batch."""

    def forward(self, x):
        return x - x.mean(0)


class Scaling(torch.nn.Module):
    """Distinguishes images of 0 to 255 from images of 0 to 1 by the maximum."""

    def forward(self, x):
        if float(x.max()) > 1.0:
            x = x / 255.0
        return x.mean(1)


class Classes(torch.nn.Module):
    """Returns one column per class up to the largest class."""

    def forward(self, x):
        return torch.nn.functional.one_hot(x).float()


class Capped(torch.nn.Module):
    """Rows of large numbers change other rows, only by a product."""

    def forward(self, x):
        return x - torch.relu(torch.ones(1, x.shape[0]) @ x - 5)


class Experts(torch.nn.Module):
    """Each expert takes the first eight rows of a batch that choose it."""

    def forward(self, x):
        chosen = torch.nn.functional.one_hot(x.argmax(1), 4)
        place = (chosen.cumsum(0) * chosen).sum(1, keepdim=True)
        return torch.where(place > 8, torch.zeros_like(x), x)


class Rolled(torch.nn.Module):
    """Replaces rows of huge numbers by the previous rows."""

    def forward(self, x):
        return torch.where(x > 1e6, x.roll(1, 0), x)


class Ensemble(torch.nn.Module):
    """The mean of two models along an axis other than the batch axis."""

    def forward(self, x):
        return torch.stack([x * 2, x + 1]).mean(0)


class Normed(torch.nn.Module):
    """Has a layer that counts batches during training only."""

    def __init__(self):
        super().__init__()
        self.norm = torch.nn.BatchNorm1d(4)

    def forward(self, x):
        return self.norm(x)


class View(torch.nn.Module):
    """Computes extents from extents."""

    def forward(self, x):
        return x.view(x.size(0), -1, 2).flatten(1) * x.shape[1]


class Deceptive(torch.nn.Module):
    """Depends on the other rows only behind a column of NaN."""

    def forward(self, x):
        return torch.cat([torch.log(-x.abs() - 1), x - x.mean(0)], 1)


class Sized(torch.nn.Module):
    """Runs for a time that depends on its input, without a loop."""

    def forward(self, x):
        n = int(x.max()) + 1
        return x + 0 * torch.ones([n, n])[0, 0]


class Strided(torch.nn.Module):
    """Halves images of at least two pixels."""

    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Conv2d(3, 2, 2, stride=2)

    def forward(self, x):
        return self.layer(x)


class Short(torch.nn.Module):
    """Accepts texts of at most twelve words."""

    def __init__(self):
        super().__init__()
        self.positions = torch.nn.Parameter(torch.rand(12, 4))

    def forward(self, x):
        n = x.size(1)
        if n > 12:
            raise ValueError("too long")
        return x + self.positions[:n]


class Nested(torch.nn.Module):
    """Nests calls three deep for the check of the code."""

    def __init__(self, inner):
        super().__init__()
        self.inner = torch.nn.Sequential(torch.nn.Sequential(inner))

    def forward(self, x):
        return self.inner(x)


class Picky(torch.nn.Module):
    """Fails when a row contains a number above 100."""

    def forward(self, x):
        if bool((x > 100).any()):
            raise RuntimeError("a number above 100")
        return x * 2


class Ballast(torch.nn.Module):
    """Has 32 MiB of parameters and reads all."""

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(2048, 4096))

    def forward(self, x):
        return x + self.weight.sum()


class Lasting(torch.nn.Module):
    """The largest number is the count of matrix products. Above 1e9 the loop
    is endless."""

    def forward(self, x):
        matrix = torch.full([512, 512], 1 / 512)
        i = 0
        while bool(x.max() > i) or bool(x.max() > 1e9):
            matrix = matrix @ matrix
            i += 1
        return x + matrix[0, 0] * 0


class Double(torch.nn.Module):
    """Multiplies 64-bit rows by a matrix too large for equal rounding."""

    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(513, 77).double()

    def forward(self, x):
        return self.layer(x)


class Halves(torch.nn.Module):
    """Depends on the other rows of a batch of 16-bit numbers."""

    def forward(self, x):
        return x - x.float().mean(0).to(x.dtype)


def read_far_behind(x):
    """Reads terabytes past the end of a tensor until the process ends."""
    lengths = torch.full([1], 1 << 40, dtype=torch.long)
    return torch.segment_reduce(x.flatten(), "sum", lengths=lengths, axis=0,
                                unsafe=True)


class Fatal(torch.nn.Module):
    """Ends its process when a row contains a number above 100."""

    def forward(self, x):
        if bool((x > 100).any()):
            x = x + read_far_behind(x)
        return x


class Lookup(torch.nn.Module):
    """Looks up rows of a table. On a GPU a missing index makes the GPU unusable
    for the process."""

    def __init__(self):
        super().__init__()
        self.table = torch.nn.Parameter(torch.arange(16.0).view(8, 2))

    def forward(self, x):
        places = torch.arange(4, device=torch.device("cpu"))
        return self.table[(x + places * 0).long()]


class Doomed(torch.nn.Module):
    """Ends its process for any input."""

    def forward(self, x):
        return x + read_far_behind(x)


class Mute(torch.nn.Module):
    """Returns nothing."""

    def forward(self, x):
        return torch.jit.annotate(list[torch.Tensor], [])


class Forever(torch.nn.Module):
    """Never returns."""

    def forward(self, x):
        while bool((x == x).all()):
            x = x + 1
        return x


class Prying(torch.nn.Module):
    """Attempts forbidden actions by existing operators."""

    def forward(self, x):
        deed = int(x[0, 0])
        if deed == 1:
            return torch.from_file("/etc/passwd", shared=False, size=4)
        if deed == 2:
            return torch.from_file("/tmp/millrace-prying", shared=True, size=4)
        if deed == 3:
            torch.save(x, "/tmp/millrace-prying")
        if deed == 4:
            return torch.from_file("/proc/self/mem", shared=True, size=4)
        return x


class Wide(torch.nn.Module):
    """Returns outputs far larger than its inputs."""

    def forward(self, x):
        return x.repeat(1, 20000)


class Two(torch.nn.Module):
    """Two inputs, two outputs."""

    def forward(self, a, b):
        return a + b, {"product": a * b}


class Relay(torch.nn.Sequential):
    """Returns its input exactly, through six layers."""

    def __init__(self):
        def times(factor):
            layer = torch.nn.Linear(4, 4, bias=False)
            layer.weight = torch.nn.Parameter(factor * torch.eye(4))
            return layer

        super().__init__(*(times(x) for x in (2, 0.5, 4, 0.25, 8, 0.125)))


class Bounds(torch.nn.Module):
    """Returns its input and fails for numbers that are too large."""

    def forward(self, x):
        if float(x.abs().max()) > 100.0:
            raise ValueError("too large")
        return x


class Checked(torch.nn.Module):
    """Two layers, each behind a part that checks but computes nothing."""

    def __init__(self):
        super().__init__()
        self.before = Bounds()
        self.first = torch.nn.Linear(4, 4)
        self.between = Bounds()
        self.second = torch.nn.Linear(4, 4)

    def forward(self, x):
        return self.second(self.between(self.first(self.before(x))))


class Tied(torch.nn.Sequential):
    """Multiplies its input twice by a parameter that two layers share."""

    def __init__(self):
        super().__init__(*(torch.nn.Linear(4, 4, bias=False) for _ in range(3)))
        self[0].weight = torch.nn.Parameter(2 * torch.eye(4))
        self[1].weight = torch.nn.Parameter(0.5 * torch.eye(4))
        self[2].weight = self[0].weight


class Residual(torch.nn.Module):
    """Six residual blocks in sequence."""

    def __init__(self):
        super().__init__()
        linear = torch.nn.Linear
        self.stem = linear(4, 32)
        self.blocks = torch.nn.ModuleList(
            torch.nn.Sequential(linear(32, 64), torch.nn.ReLU(), linear(64, 32))
            for _ in range(6))
        self.head = linear(32, 3)

    def forward(self, x):
        x = self.stem(x)
        for block in self.blocks:
            x = x + block(x)
        return self.head(x)


class Encoder(torch.nn.Module):
    """Two masked attention layers. The mask and the positions also reach the second
    layer, and one output also uses the first layer."""

    class Layer(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.query, self.key, self.value = (
                torch.nn.Linear(16, 16) for _ in range(3))

        def forward(self, x, bias):
            weights = self.query(x) @ self.key(x).transpose(-1, -2) + bias
            return x + weights.softmax(-1) @ self.value(x)

    def __init__(self):
        super().__init__()
        self.words = torch.nn.Embedding(50, 16)
        self.places = torch.nn.Embedding(64, 16)
        self.layers = torch.nn.ModuleList(self.Layer() for _ in range(2))
        self.pooler = torch.nn.Linear(16, 8)

    def forward(self, ids, mask):
        bias = (1 - mask.unsqueeze(1)) * -1e4
        places = self.places(torch.arange(ids.size(1)))
        first = self.layers[0](self.words(ids) + places, bias)
        x = self.layers[1](first + places, bias)
        return {"hidden": x + first, "pooled": self.pooler(x[:, 0])}


class Container(torch.nn.Sequential):
    """Passes two tensors to parts with numbers as names, like tensor names."""

    def __init__(self):
        super().__init__(torch.nn.Linear(4, 4), torch.nn.Linear(4, 4))

    def forward(self, x):
        bias = self[0].bias
        doubled, more = x * 2 + bias, x + bias
        return self[1](self[0](doubled) + more)


class Around(torch.nn.Module):
    """A container within a model."""

    def __init__(self):
        super().__init__()
        self.parts = Container()

    def forward(self, x):
        return self.parts(x)


class Deciding(torch.nn.Module):
    """Takes another branch for few rows than for many rows."""

    def forward(self, x):
        return x * 2 if x.size(0) > 2 else x


class Dicing(torch.nn.Module):
    """Computes different outputs each time."""

    def forward(self, x):
        return x + torch.rand_like(x)


class Opaque(torch.nn.Module):
    """Can be run and traced, but not compiled."""

    def __init__(self, depth=1):
        super().__init__()
        self.inner = Opaque(0) if depth else torch.nn.Identity()

    def forward(self, x):
        return (lambda y: y + 1)(self.inner(x))


class Counting(torch.nn.Module):
    """Changes its state while it runs, so it is no fixed sequence of layers."""

    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(4, 4)
        self.second = torch.nn.Linear(4, 4)
        self.runs: int = 0

    def forward(self, x):
        self.runs += 1
        return self.second(self.first(x))


class Keeping(torch.nn.Module):
    """Doubles, keeps its last output, and adds the later change of this output."""

    def __init__(self):
        super().__init__()
        self.last = torch.zeros(1)
        self.copy = torch.zeros(1)

    def forward(self, x):
        y = x * 2 + (self.last - self.copy).abs().sum()
        self.last = y
        self.copy = y.clone()
        return y


class Numbering(torch.nn.Module):
    """Adds the count of its runs. Its state is a number and a list."""

    notes: typing.List[int]

    def __init__(self):
        super().__init__()
        self.runs = 0
        self.notes = []
        self.weight = torch.nn.Parameter(torch.ones(4))

    def forward(self, x):
        self.runs += 1
        self.notes.append(1)
        return x * self.weight + self.runs + len(self.notes)


def rewritten(source, target, change=str, ending=".py", more=()):
    """Copies an archive with changed programs, other file endings and more files."""
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w") as new:
        for x in old.infolist():
            text, name = old.read(x), x.filename
            if name.endswith(".py"):
                text, name = change(text.decode()).encode(), name[:-3] + ending
            new.writestr(name, text, x.compress_type)
        for name in more:
            new.writestr(f"{source.stem}/{name}", "{}")


def write_hostile(folder):
    """Writes archives that torch.jit.save never writes."""
    prying = folder / "prying.pt"
    rewritten(prying, folder / "disguised.pt",
              lambda x: x.replace("torch.from_file", "torch.neg")
              .replace("torch.save(", "ops . aten . save ("))
    rewritten(prying, folder / "shouting.pt", ending=".Py")
    rewritten(prying, folder / "old.pt", ending=".txt", more=["model.json"])
    rewritten(prying, folder / "renaming.pt",
              lambda x: x.replace("torch.from_file", 'getattr(torch, "from_file")'))
    identity = folder / "identity.pt"
    rewritten(identity, folder / "bomb.pt", lambda x: x + " " * (256 << 20))
    claim = bytearray(identity.read_bytes())
    with zipfile.ZipFile(identity) as archive:
        for x in archive.infolist():
            entry = claim.index(x.filename.encode(), archive.start_dir) - 46
            for size in (x.header_offset + 22, entry + 24):
                struct.pack_into("<I", claim, size, 0xfffffff0)
    (folder / "claim.pt").write_bytes(claim)
    (folder / "lite.pt").write_bytes(b"\x20\0\0\0PTMF" + bytes(1000))


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(1)
    torch.jit.script(Nested(Sized())).save(str(folder / "nested-sized.pt"))
    torch.jit.script(Nested(Affine())).save(str(folder / "nested-affine.pt"))
    for module in (Identity(), Affine(), Centred(), Picky(), Two(), Ballast(), Lasting(), Tallying(),
                   Deceptive(), Scaling(), Classes(), Capped(), Experts(), Rolled(),
                   Ensemble(), Normed(), Sized(), Double(), Halves(), Wide(),
                   Lookup(), Fatal(), Doomed(), Mute(), Forever(), Prying(),
                   Relay(), Checked(), Residual(), Encoder(), Counting(), Around(),
                   Keeping(), Numbering(), Strided(), Short()):
        name = type(module).__name__.lower()
        torch.jit.script(module.eval()).save(str(folder / f"{name}.pt"))
    torch.jit.trace(View(), torch.rand(2, 4)).save(str(folder / "traced-view.pt"))
    tied = Tied().eval()
    torch.jit.script(tied).save(str(folder / "tied.pt"))
    torch.jit.trace(tied, torch.rand(2, 4)).save(str(folder / "tied-traced.pt"))
    write_hostile(folder)


if __name__ == "__main__":
    main()
