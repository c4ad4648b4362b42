"""redis_exporter: what it says of the server before, while it is away, and after."""

import os
import re
import subprocess
import sys
import urllib.request

from driver import HOST, PORT, ask, run, until, worker

sys.path.insert(0, "..")
from server import free_port  # noqa: E402  (the driver's folder is not on the path before)

NEEDED = (
    "redis_connected_clients", "redis_commands_processed_total", "redis_memory_used_bytes", "redis_db_keys",
    "redis_commands_total", "redis_uptime_in_seconds", "redis_keyspace_hits_total", "redis_expired_keys_total",
    "redis_evicted_keys_total", "redis_instance_info", "redis_slowlog_length", "redis_blocked_clients",
    "redis_config_maxclients", "redis_net_input_bytes_total", "redis_commands_duration_seconds_total",
    "redis_connected_clients", "redis_memory_max_bytes", "redis_exporter_last_scrape_error",
    "redis_latency_percentiles_usec", "redis_start_time_seconds", "redis_process_id", "redis_cpu_sys_seconds_total",
)


def metrics():
    program = os.environ["REDIS_EXPORTER"]
    said = subprocess.run([program, "--version"], capture_output=True, text=True)
    found = re.search(r"v?(\d+\.\d+\.\d+)", said.stdout + said.stderr)
    print("version redis_exporter", found.group(1) if found else "of unknown version", flush=True)
    port = free_port()
    worker(program, "-redis.addr", f"redis://{HOST}:{PORT}", "-web.listen-address", f"{HOST}:{port}",
           "-check-keys", "db0=*")

    def scrape():
        with urllib.request.urlopen(f"http://{HOST}:{port}/metrics", timeout=5) as page:
            return page.read().decode()

    def is_up(text):
        return re.search(r"^redis_up(\{.*\})? 1$", text, re.MULTILINE) is not None

    until("the server is up", lambda: is_up(scrape()))
    missing = [name for name in dict.fromkeys(NEEDED) if not re.search(rf"^{name}(\{{.*\}})? ", scrape(), re.MULTILINE)]
    ask("down")
    until("the server is down", lambda: not is_up(scrape()))
    ask("up")
    until("the server is up again", lambda: is_up(scrape()))
    errors = re.findall(r"^redis_exporter_last_scrape_error\{.*\} 1$", scrape(), re.MULTILINE)
    assert not errors, errors
    assert not missing, f"missing: {missing}"
    return f"{len(re.findall('^redis_', scrape(), re.MULTILINE))} figures; up, down, up"


run({"metrics": metrics})
