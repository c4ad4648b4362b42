"""The cases. Each is a function of the context that yields its parts: a name, and a check that raises Failed or
Unavailable, notes failures, and returns a word about what came of it."""
from calls import eio, short
from damage import damaged
from devices import lost_device, read_only
from full import enospc, quota
from kills import killed
from weak import weak

CASES = {"killed": killed, "eio": eio, "short": short, "enospc": enospc, "lost-device": lost_device,
         "read-only": read_only, "quota": quota, "weak": weak, "damaged": damaged}
