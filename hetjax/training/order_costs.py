"""The costs that a run counts orders of products and sums with, alike in all its processes."""

from hetjax.checkpoints.checkpoint import Checkpoint
from hetjax.checkpoints.progress import Progress
from hetjax.kernels import calibration, native, orders
from hetjax.kernels.cost_model import CostModel, Costs, usual
from hetjax.options.config import Config
from hetjax.processes.group import ProcessGroup
from hetjax.system.logs import log


def order_costs(processes: ProcessGroup) -> Costs:
    """Return the costs of the first process's machine, in all processes; called by all together."""
    # All processes ask, as their backends start together.
    measurable = native.taken()
    found = (calibration.machine_costs() if measurable else usual().orders) if processes.first else None
    return Costs(*processes.broadcast_object("costs of orders", found and list(found)))


def count_orders(config: Config, done: Progress, checkpoint: Checkpoint | None, processes: ProcessGroup) -> CostModel:
    """Return the cost model of a run, with the costs of orders on this machine, or on that where the run began."""
    if not done.costs:
        constants = Costs() if checkpoint else usual().orders  # an older checkpoint has no costs
        fresh = config.train.order_costs == "measured" and not checkpoint
        done.costs = list(order_costs(processes) if fresh else constants)
    costs = orders.kept(done.costs)
    if processes.first:
        words = ", ".join(f"{name} {cost:.2g}" for name, cost in costs._asdict().items())
        log.debug(f"orders are counted with these costs, in nanoseconds: {words}")
    return CostModel(costs)
