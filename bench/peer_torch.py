"""PyTorch's eager steps of bench/models.h, as JSON lines like step_bench's.

    python3 bench/peer_torch.py --threads N --seconds S

Debian's python3-torch uses OpenBLAS, whose 0.3.21 does not know recent Intel CPUs and falls back to
SSE3 kernels: run with OPENBLAS_CORETYPE=SKYLAKEX on an AVX-512 machine for a fair peer.
"""
import argparse
import json
import time

import torch


def mlp(widths):
    layers = []
    for i in range(1, len(widths)):
        layers.append(torch.nn.Linear(widths[i - 1], widths[i]))
        if i + 1 < len(widths):
            layers.append(torch.nn.ReLU())
    return torch.nn.Sequential(*layers)


MODELS = [
    ("graph_break", 64, [1024] * 5, False),
    ("mlp_mnist", 128, [784, 1024, 1024, 10], True),
    ("tiny", 8, [32] * 5, False),
]


def run(name, batch, widths, classify, threads, seconds):
    torch.manual_seed(0)
    model = mlp(widths)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    x = torch.randn(batch, widths[0])
    y = torch.zeros(batch, dtype=torch.int64) if classify else torch.randn(batch, widths[-1])
    loss_function = torch.nn.CrossEntropyLoss() if classify else torch.nn.MSELoss()

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss = loss_function(model(x), y)
        loss.backward()
        optimizer.step()
        return loss.item()

    for _ in range(5):
        step()
    times = []
    begin = time.perf_counter()
    while time.perf_counter() - begin < seconds:
        start = time.perf_counter()
        step()
        times.append(1e3 * (time.perf_counter() - start))
    times.sort()
    print(json.dumps({"system": "torch " + torch.__version__, "model": name, "threads": threads,
                      "median_ms": times[len(times) // 2], "best_ms": times[0]}), flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=2)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    for name, batch, widths, classify in MODELS:
        run(name, batch, widths, classify, arguments.threads, arguments.seconds)


if __name__ == "__main__":
    main()
