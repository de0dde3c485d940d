"""A server that takes most of the GPU for its cache of keys and values at the start: a larger batch finds no room beside it."""

import torch

SHARE = 0.9


class Server:
    def __init__(self):
        self.model = torch.nn.Sequential(torch.nn.Linear(2048, 8192), torch.nn.GELU(), torch.nn.Linear(8192, 2048)).cuda().half()
        free, _ = torch.cuda.mem_get_info()
        self.cache = torch.empty(int(free * SHARE) // 2, dtype=torch.half, device="cuda")  # PLANTED

    @torch.inference_mode()
    def answer(self, requests):
        return self.model(torch.randn(requests, 2048, dtype=torch.half, device="cuda")).float().sum().item()


def main():
    server = Server()
    for turn in range(200):
        requests = 65536 if turn == 150 else 64 + turn % 32
        print("batch", turn, "of", requests, f"{server.answer(requests):.2f}", flush=True)


main()
