"""Rules, findings, reports and locations in user code; imports nothing else of nkisim."""

from nkisim.diagnostics.findings import (
    Fact,
    Finding,
    NkiCallError,
    NkiFindingWarning,
    NkiValidationError,
    Rewrite,
)
from nkisim.diagnostics.frames import (
    REPLAYED,
    Place,
    Position,
    add_own_paths,
    assigned_name,
    called_by_user,
    decides,
    defined_at,
    hide_own_frames,
    is_own_file,
    leaves_while,
    loops_around,
    note_if_raised_inside,
    outermost_loop,
    own_frames_shown,
    raised_at,
    repeats_while,
    user_line,
    user_place,
    user_position,
    user_stacklevel,
)
from nkisim.diagnostics.recorder import RECORDER, Recorder, Strictness, flag
from nkisim.diagnostics.report import Report
from nkisim.diagnostics.rules import CHECKED, RULES, Rule, Severity, declare, declare_advice
