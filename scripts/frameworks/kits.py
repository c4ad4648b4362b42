"""The kits of packages that programs need, one a language, and the scenarios that use them."""

import dataclasses
import hashlib
import os
import pathlib
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "halite-clients"
# The longest that an installation may take, in seconds.
INSTALLING = 600


class Kit:
    """A language's packages, installed into a folder of the cache. `why` says why they cannot be had."""

    programs = ()
    debian = ()

    def __init__(self, name):
        self.name = name
        self.source = HERE / name
        self.folder = CACHE / name
        self.why = None

    def prepare(self, install):
        """Installs what is missing. What does not change in the sources is not installed again."""
        absent = [program for program in self.programs if not shutil.which(program)]
        if install and self.debian and (absent or not self.present()):
            self.install_debian()
            absent = [program for program in self.programs if not shutil.which(program)]
        if absent:
            self.why = f"no {' or '.join(absent)} here"
            return
        stamp, now = self.folder / "stamp", self.digest()
        if stamp.exists() and stamp.read_text() == now:
            return
        print(f"installing the packages of {self.name}", file=sys.stderr, flush=True)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self.install()
            stamp.write_text(now)
        except (subprocess.SubprocessError, OSError) as error:
            output = getattr(error, "stderr", None) or getattr(error, "stdout", None) or str(error)
            print(output[-2000:], file=sys.stderr)
            self.why = f"its packages could not be installed: {output.strip().splitlines()[-1][:120]}"

    def install_debian(self):
        sudo = [] if os.getuid() == 0 else ["sudo"]
        subprocess.run([*sudo, "apt-get", "install", "-y", "--no-install-recommends", *self.debian],
                       stdout=subprocess.DEVNULL, check=False)

    def present(self):
        return True

    def digest(self):
        """A digest of the files that decide what is installed."""
        digest = hashlib.sha256()
        for file in sorted(self.manifests()):
            digest.update(file.name.encode() + b"\0" + file.read_bytes())
        return digest.hexdigest()

    def manifests(self):
        return [file for file in self.source.iterdir() if file.is_file()]

    def missing(self, _scenario):
        return self.why


def run(*command, folder=None, **environment):
    subprocess.run([str(word) for word in command], cwd=folder, env=os.environ | environment, check=True,
                   capture_output=True, text=True, timeout=INSTALLING)


class Python(Kit):
    """A virtual environment. Each list of packages has one of its own, for some exclude each other's versions."""

    def __init__(self, packages):
        super().__init__("python")
        self.packages = packages
        self.folder = CACHE / f"python-{packages}"

    def manifests(self):
        return [self.source / f"{self.packages}.txt"]

    def install(self):
        run(sys.executable, "-m", "venv", "--clear", self.folder)
        run(self.folder / "bin/pip", "install", "--quiet", "--disable-pip-version-check", "-r", *self.manifests())

    def command(self, scenario):
        return [str(self.folder / "bin/python"), "-B", scenario.program], self.source, {}


class Node(Kit):
    programs = ("node", "npm")
    debian = ("nodejs", "npm")

    def manifests(self):
        return [self.source / "package.json"]

    def install(self):
        for file in self.manifests():
            shutil.copy(file, self.folder)
        run("npm", "install", "--no-package-lock", "--no-audit", "--no-fund", "--ignore-scripts", folder=self.folder)

    def prepare(self, install):
        super().prepare(install)
        # A module is looked for beside the program that asks for it.
        if self.why is None:
            for file in self.source.glob("*.mjs"):
                shutil.copy(file, self.folder)

    def command(self, scenario):
        return ["node", scenario.program], self.folder, {}


class Go(Kit):
    programs = ("go",)
    debian = ("golang-go",)

    def install(self):
        run("go", "build", "-o", self.folder / "programs", ".", folder=self.source)

    def command(self, scenario):
        return [str(self.folder / "programs"), scenario.program], self.source, {}


class Java(Kit):
    programs = ("java", "javac", "mvn")
    debian = ("default-jdk-headless", "maven")

    def install(self):
        for folder in ("jars", "classes"):
            shutil.rmtree(self.folder / folder, ignore_errors=True)
        run("mvn", "-B", "-q", "-f", self.source / "pom.xml", "dependency:copy-dependencies",
            f"-DoutputDirectory={self.folder / 'jars'}")
        shared = HERE / "java" / "Driver.java"
        sources = {file.name: file for file in (*self.source.glob("*.java"), shared)}.values()
        run("javac", "-nowarn", "-parameters", "-cp", f"{self.folder / 'jars'}/*", "-d", self.folder / "classes", *sources)

    def command(self, scenario):
        path = f"{self.folder / 'classes'}:{self.folder / 'jars'}/*"
        return ["java", "-Xmx256m", "-XX:TieredStopAtLevel=1", "-cp", path, "frameworks." + scenario.program], self.folder, {}


class Ruby(Kit):
    """Debian's packages of Ruby's frameworks: gems are not fetched."""

    programs = ("ruby",)
    debian = ("ruby", "ruby-redis", "ruby-sidekiq")

    def present(self):
        return shutil.which("ruby") and all(self.has(gem) for gem in ("redis", "sidekiq"))

    @staticmethod
    def has(gem):
        return subprocess.run(["ruby", "-e", f"require '{gem}'"], capture_output=True).returncode == 0

    def install(self):
        pass

    def missing(self, scenario):
        return self.why or (None if self.has(scenario.needs) else f"no gem {scenario.needs} here")

    def command(self, scenario):
        return ["ruby", scenario.program], self.source, {}


class Php(Kit):
    """Debian's packages of PHP's clients."""

    programs = ("php",)
    debian = ("php-cli", "php-redis", "php-predis")

    def present(self):
        return shutil.which("php") and subprocess.run(["php", "-r", "exit(class_exists('Redis') ? 0 : 1);"]).returncode == 0

    def install(self):
        pass

    def missing(self, scenario):
        return self.why or (None if self.present() else "no PHP extension redis here")

    def command(self, scenario):
        return ["php", scenario.program], self.source, {}


class Exporter(Kit):
    """The exporter of metrics, by Debian's name or its own; its program is in Python."""

    debian = ("prometheus-redis-exporter",)
    names = ("redis_exporter", "prometheus-redis-exporter")

    def __init__(self):
        super().__init__("exporter")
        self.source = HERE / "python"

    def present(self):
        return self.found() is not None

    def found(self):
        return next((path for name in self.names if (path := shutil.which(name))), None)

    def prepare(self, install):
        if install and not self.present():
            self.install_debian()
        if not self.present():
            self.why = "no redis_exporter here"

    def command(self, scenario):
        return [sys.executable, "-B", scenario.program], self.source, {"REDIS_EXPORTER": self.found()}


@dataclasses.dataclass(frozen=True)
class Scenario:
    """A job that a client does: the program gets its name as an argument."""

    client: str
    kit: Kit
    program: str
    name: str
    needs: str = ""


def scenarios():
    """All scenarios, in the table's order."""
    python, arq, node, go = Python("packages"), Python("arq"), Node("node"), Go("go")
    java, spring, ruby, php, exporter = Java("java"), Java("spring"), Ruby("ruby"), Php("php"), Exporter()
    table = [
        ("redis-py", python, "redis_py.py", "locks pubsub asyncio streams"),
        ("celery", python, "celery_jobs.py", "results retries"),
        ("rq", python, "rq_jobs.py", "jobs retries"),
        ("dramatiq", python, "dramatiq_jobs.py", "jobs"),
        ("huey", python, "huey_jobs.py", "jobs"),
        ("arq", arq, "arq_jobs.py", "jobs"),
        ("limits", python, "limits_hits.py", "fixed-window moving-window sliding-window"),
        ("flask-limiter", python, "limits_hits.py", "flask"),
        ("django-redis", python, "django_cache.py", "cache locks sessions"),
        ("channels-redis", python, "django_channels.py", "groups"),
        ("node-redis", node, "node_redis.mjs", "transactions streams pubsub"),
        ("ioredis", node, "ioredis.mjs", "queue scripts"),
        ("bullmq", node, "bullmq.mjs", "jobs delayed retried flows"),
        ("bull", node, "bull.mjs", "jobs"),
        ("socket.io-redis-adapter", node, "socketio.mjs", "adapter sharded"),
        ("socket.io-streams-adapter", node, "socketio.mjs", "streams"),
        ("rate-limiter-flexible", node, "limits.mjs", "limiter"),
        ("connect-redis", node, "limits.mjs", "sessions"),
        ("redlock", node, "limits.mjs", "redlock"),
        ("go-redis", go, "goredis", "transactions streams pubsub"),
        ("redsync", go, "redsync", "locks"),
        ("rueidis", go, "rueidis", "caching"),
        ("redigo", go, "redigo", "queue"),
        ("asynq", go, "asynq", "jobs"),
        ("jedis", java, "Jedises", "transactions pubsub streams"),
        ("lettuce", java, "Lettuces", "async pubsub caching"),
        ("redisson", java, "Redissons", "locks maps queues delayed topics"),
        ("spring-data-redis", spring, "Springs", "templates repositories messages"),
        ("spring-session", spring, "Springs", "sessions"),
        ("sidekiq", ruby, "sidekiq_jobs.rb", "jobs retries"),
        ("resque", ruby, "resque_jobs.rb", "jobs"),
        ("phpredis", php, "phpredis.php", "sessions"),
        ("redis_exporter", exporter, "exporter.py", "metrics"),
    ]
    needs = {"sidekiq": "sidekiq", "resque": "resque"}
    return [Scenario(client, kit, program, name, needs.get(client, ""))
            for client, kit, program, names in table for name in names.split()]
