# Sidekiq: jobs at once and later, and jobs that fail once and are tried again. What is due later is due after the kill:
# Sidekiq takes such a job from its set before it adds it to a queue, so that one may be lost in between, on Redis too.
require_relative "driver"
require "sidekiq"

THREADS = 2
LATER = 6

class Job
  include Sidekiq::Worker
  sidekiq_options retry: 10
  sidekiq_retry_in { LATER }

  def perform(name)
    Record.add(name)
    wait_at_gate if name == "waits"
  end
end

class Twice < Job
  def perform(name)
    tried = "tried-#{name}"
    unless Record.done.include?(tried)
      Record.add(tried)
      raise "the first try fails"
    end
    super
  end
end

Sidekiq.configure_client { |config| config.redis = { url: URL, reconnect_attempts: 0 } }
Sidekiq.configure_server do |config|
  config.redis = { url: URL }
  config.average_scheduled_poll_interval = 1 if config.respond_to?(:average_scheduled_poll_interval=)
end

# Sidekiq's program loads this file, too.
unless Sidekiq.server?
  run_scenario do
    version "sidekiq"
    version "redis"
    spawn("sidekiq", "-c", THREADS.to_s, "-q", "default", "-r", File.expand_path(__FILE__), in: File::NULL,
          out: File::NULL, err: File::NULL)
    job = SCENARIO == "retries" ? Twice : Job
    across(THREADS, -> { Job.perform_async("waits") }, pause: 0.03) do |name|
      name.end_with?("5") ? job.perform_in(LATER, name) : job.perform_async(name)
    end
  end
end
