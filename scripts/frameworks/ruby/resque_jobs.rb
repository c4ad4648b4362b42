# Resque: jobs of one worker, which is a process of its own.
require_relative "driver"
require "resque"

class Job
  @queue = :queue

  def self.perform(name)
    Record.add(name)
    wait_at_gate if name == "waits"
  end
end

Resque.redis = Redis.new(url: URL, reconnect_attempts: 0)

if ARGV.last == "worker"
  ENV["FORK_PER_JOB"] = "false"
  loop do
    Resque::Worker.new("queue").work(0.1)
  rescue StandardError
    sleep 0.2
  end
else
  run_scenario do
    version "resque"
    spawn("ruby", __FILE__, SCENARIO, HOST, PORT, "worker", in: File::NULL)
    across(1, -> { Resque.enqueue(Job, "waits") }) { |name| Resque.enqueue(Job, name) }
  end
end
