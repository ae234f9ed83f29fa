"""Fine-tuning on the live part: a smaller network in place of the whole one, from epoch to epoch."""

import torch

from argand.deploy.live import live_part
from argand.optim import Adam
from argand.study.state import Live, State


def narrow(state: State) -> None:
    """Let the state train its live part alone, with the moments it has; nothing changes where nothing is dead."""
    assert state.masks is not None
    part = live_part(state.net, state.masks)
    if part is None:
        return
    whole = state.optimizer
    optimizer = Adam(part.net, lr=whole.param_groups[0]["lr"], max_norm=whole.max_norm)
    names = dict(part.net.named_parameters())
    for name, parameter in state.net.named_parameters():
        for key, value in whole.state[parameter].items():
            optimizer.state[names[name]][key] = part.take(name, value) if value.dim() else value.clone()
    state.live = Live(part, optimizer)


@torch.no_grad()
def settle(state: State) -> None:
    """Write what the live part has learnt, and its moments, back to the whole network."""
    if state.live is None:
        return
    part, optimizer = state.live.part, state.live.optimizer
    small = dict(part.net.named_parameters())
    for name, parameter in state.net.named_parameters():
        part.put(name, small[name], parameter)
        moments = state.optimizer.state[parameter]
        for key, value in optimizer.state[small[name]].items():
            if value.dim():
                part.put(name, value, moments.setdefault(key, torch.zeros_like(parameter)))
            else:
                moments[key] = value.clone()
    buffers = dict(part.net.named_buffers())
    for name, buffer in state.net.named_buffers():
        if buffer.dim():
            part.put(name, buffers[name], buffer)
        else:
            buffer.copy_(buffers[name])
