"""The machine: cores that execute instructions and emit events."""

from nkisim.machine.accesses import commit, commit_where, prepare_read
from nkisim.machine.blas import one_blas_thread
from nkisim.machine.calls.dispatch import instruction
from nkisim.machine.calls.operands import Rows, resolve_static
from nkisim.machine.calls.plan import Plan, make_plan
from nkisim.machine.calls.provenance import check_finite
from nkisim.machine.calls.transfer import Loaded, Partial
from nkisim.machine.cluster import Cluster, Member
from nkisim.machine.core import CORE, Core, Event, Garbage, current_core
from nkisim.machine.handles import (
    NamedOrder,
    NkiInstruction,
    apply_schedule,
    checked_schedule,
    handle_of,
)
from nkisim.machine.schedule import Schedule, Stopped
from nkisim.machine.tracking import Effect, Iterations, LoopKind, Step, Tracker
