# SPDX-License-Identifier: LGPL-2.1-or-later
"""The models of benchmarks/adoption.py: programs of PyTorch whose memory use differs.

Each function of MODELS creates a model, and returns a function that prepares a step. That function
gets a random generator, and returns the amount of work of the step and a function that does the
step. The result of a step is a number that two runs can compare."""


def make_gpt2(torch, width=768, n_layers=12, n_words=50257, length=1024):
    """The training of a small GPT-2, with sequences of changing length."""
    nn, functional = torch.nn, torch.nn.functional

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
            self.attention, self.project = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x):
            batch, n, _ = x.shape
            heads = (part.view(batch, n, -1, 64).transpose(1, 2)
                     for part in self.attention(self.norms[0](x)).split(width, dim=2))
            y = functional.scaled_dot_product_attention(*heads, is_causal=True)
            x = x + self.project(y.transpose(1, 2).reshape(batch, n, width))
            return x + self.narrow(functional.gelu(self.wide(self.norms[1](x))))

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.words, self.places = nn.Embedding(n_words, width), nn.Embedding(length, width)
            self.blocks = nn.ModuleList(Block() for _ in range(n_layers))
            self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, n_words, bias=False)

        def forward(self, tokens, wanted):
            x = self.words(tokens) + self.places.weight[:tokens.shape[1]]
            for block in self.blocks:
                x = block(x)
            return functional.cross_entropy(self.head(self.norm(x)).flatten(0, 1),
                                            wanted.flatten())
    return Model().cuda()


def _train(torch, optimizer, get_loss):
    optimizer.zero_grad(set_to_none=True)
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = get_loss()
    loss.backward()
    optimizer.step()
    return loss


def gpt2(torch):
    """Training of a small GPT-2, 8 sequences of 256 to 1,024 tokens"""
    model = make_gpt2(torch)
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)

    def prepare(generator):
        n = int(torch.randint(4, 17, (), generator=generator)) * 64
        tokens = torch.randint(0, 50257, (8, n + 1), generator=generator).cuda()
        return n, lambda: _train(torch, optimizer, lambda: model(tokens[:, :-1], tokens[:, 1:]))
    return prepare


def resnet50(torch):
    """Training of ResNet-50, 16 to 64 pictures of 160 to 288 pixels"""
    from torchvision.models import resnet50 as make_resnet50
    model = make_resnet50(weights=None).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, foreach=True)

    def prepare(generator):
        n, size = (int(torch.randint(*limits, (), generator=generator)) for limits in
                   ((2, 9), (5, 10)))
        n, size = 8 * n, 32 * size
        pictures = torch.rand(n, 3, size, size, generator=generator).cuda()
        classes = torch.randint(0, 1000, (n,), generator=generator).cuda()
        return n * size * size, lambda: _train(
            torch, optimizer, lambda: torch.nn.functional.cross_entropy(model(pictures), classes))
    return prepare


def detector(torch):
    """Inference of Faster R-CNN with ResNet-50, 1 to 4 pictures of 320 to 1,280 pixels"""
    from torchvision.models.detection import fasterrcnn_resnet50_fpn
    model = fasterrcnn_resnet50_fpn(weights=None, weights_backbone=None).cuda().eval()

    def prepare(generator):
        sizes = torch.randint(10, 41, (int(torch.randint(1, 5, (), generator=generator)), 2),
                              generator=generator) * 32
        pictures = [torch.rand(3, *size, generator=generator).cuda() for size in sizes.tolist()]

        def find():
            with torch.inference_mode():
                return sum(len(found["boxes"]) for found in model(pictures))
        return len(pictures), find
    return prepare


def decoder(torch, width=2048, n_layers=16, n_words=32000):
    """Inference of a decoder like Llama, 1 to 16 sequences, prompts of up to 1,024 tokens"""
    nn, functional = torch.nn, torch.nn.functional

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norms = nn.ModuleList(nn.RMSNorm(width) for _ in range(2))
            self.attention, self.project = (nn.Linear(width, n * width, bias=False)
                                            for n in (3, 1))
            self.gate, self.up = (nn.Linear(width, 3 * width, bias=False) for _ in range(2))
            self.down = nn.Linear(3 * width, width, bias=False)

        def forward(self, x, cache):
            batch, n, _ = x.shape
            query, key, value = (part.view(batch, n, -1, 128).transpose(1, 2) for part in
                                 self.attention(self.norms[0](x)).split(width, dim=2))
            if cache is not None:
                key, value = (torch.cat(pair, dim=2) for pair in zip(cache, (key, value)))
            y = functional.scaled_dot_product_attention(query, key, value, is_causal=cache is None)
            x = x + self.project(y.transpose(1, 2).reshape(batch, n, width))
            y = self.norms[1](x)
            return x + self.down(functional.silu(self.gate(y)) * self.up(y)), (key, value)

    with torch.device("cuda"):
        words, head = nn.Embedding(n_words, width), nn.Linear(width, n_words, bias=False)
        blocks = nn.ModuleList(Block() for _ in range(n_layers))
    nn.ModuleList((words, head, blocks)).to(torch.bfloat16)

    def prepare(generator):
        batch, length = (int(torch.randint(*limits, (), generator=generator)) for limits in
                         ((1, 17), (16, 1025)))
        prompt = torch.randint(0, n_words, (batch, length), generator=generator).cuda()

        def generate():
            tokens, caches = prompt, [None] * n_layers
            with torch.inference_mode():
                for _ in range(64):
                    x = words(tokens)
                    for i, block in enumerate(blocks):
                        x, caches[i] = block(x, caches[i])
                    tokens = head(x[:, -1:]).argmax(dim=-1)
            return tokens.sum()
        return 1, generate
    return prepare


MODELS = {function.__name__: function for function in (gpt2, resnet50, detector, decoder)}
