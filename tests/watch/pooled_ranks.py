"""Starts two ranks, whose errors go to the process that started them: pooled_ranks.py POOL FOLDER
They meet in the folder. POOL: futures, whose workers live on, or actors, which are killed then, as Ray does."""

import concurrent.futures
import multiprocessing
import os
import sys
import time

import torch
import torch.distributed as dist


def train(rank, folder):
    dist.init_process_group("gloo", init_method="file://%s/store" % folder, rank=rank, world_size=2)
    torch.manual_seed(0)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for step in range(3):
        if step == 2:
            raise ValueError("bad sample 17")
        optimizer.zero_grad()
        model(torch.full((2, 4), 1.0 + rank)).mean().backward()
        optimizer.step()


def act(rank, folder, sender):
    try:
        train(rank, folder)
    except ValueError as error:
        sender.send(error)
        time.sleep(100)


def fail_as_an_actor(context, folder):
    receiver, sender = context.Pipe(duplex=False)
    actors = [context.Process(target=act, args=(rank, folder, sender)) for rank in range(2)]
    for actor in actors:
        actor.start()
    errors = [receiver.recv() for _ in actors]
    for actor in actors:
        actor.kill()
        actor.join()
    raise errors[0]


if __name__ == "__main__":
    pool, folder = sys.argv[1:]
    os.makedirs(folder, exist_ok=True)
    context = multiprocessing.get_context("fork")
    if pool == "futures":
        with concurrent.futures.ProcessPoolExecutor(2, mp_context=context) as workers:
            list(workers.map(train, range(2), [folder] * 2))
    else:
        fail_as_an_actor(context, folder)
