"""A training loop of your own, made of the parts of `python -m hetjax.train`.

    python -m examples.loop

Its losses are those of `python -m hetjax.train` with the same options; checkpoints, the choice of the best epoch, caches
and meshes are what `hetjax.train` adds to it.
"""

from hetjax.datasets.load import load
from hetjax.options.config import Config, Model, Sampling, Train
from hetjax.options.owners import made_data
from hetjax.sharding.registry import make_engine
from hetjax.tasks.metrics import quality


def train(config: Config) -> list[float]:
    """Train; return the loss of every step."""
    graph = load(config.data)
    engine = make_engine(config, graph)  # what trains: here one device
    state, losses = engine.init(config.train.seed), []
    for epoch in range(config.train.epochs):
        for drawn in engine.batches.epoch(epoch):
            state, loss = engine.step(state, drawn.batch)
            losses.append(float(loss))
        nodes = graph.splits["validation"]
        logits = engine.outputs(state, nodes)
        if logits is not None:  # in the first process, here the only one
            accuracy = quality(logits, graph.labels[nodes])["accuracy"]
            print(f"epoch {epoch + 1}: loss {losses[-1]:.4f}, validation accuracy {accuracy:.4f}")
    return losses


if __name__ == "__main__":
    train(
        Config(
            data=made_data(format="synthetic", schema="ogbn-mag", scale=0.01),
            model=Model(name="rgcn", hidden=64),
            sampling=Sampling(batch_size=512, fanout=(10, 10)),
            train=Train(epochs=3),
        )
    )
