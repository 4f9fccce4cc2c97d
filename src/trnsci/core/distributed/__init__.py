"""One problem over the ranks of ``torch.distributed``: layouts, agreement, collectives, plans.

Nothing here imports ``torch.distributed.tensor`` before a DTensor is used.
"""
