# Sidekiq: how many jobs that do nothing are added and worked on in a second. The worker is Sidekiq's own program with its
# default concurrency, which loads this file, too; it counts the jobs, and writes the rate down at the last one.
require "sidekiq"
require "tempfile"

BULK = 1000
ENV["RATES"] ||= ARGV.drop(1).join(" ")
HOST, PORT, COUNT = ENV["RATES"].split
JOBS = Integer(COUNT)
ALL = 2 * JOBS
ENV["RATE"] ||= Tempfile.create("rate").path

def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)

class Job
  include Sidekiq::Worker

  @lock = Mutex.new
  @done = 0

  def self.count
    @lock.synchronize do
      @start ||= now
      @done += 1
      File.write(ENV["RATE"], ((ALL - 1) / (now - @start)).to_s) if @done == ALL
    end
  end

  def perform(_number) = Job.count
end

redis = { url: "redis://#{HOST}:#{PORT}" }
Sidekiq.configure_client { |config| config.redis = redis }
Sidekiq.configure_server { |config| config.redis = redis }

def timed(step)
  start = now
  yield
  puts "rate #{JOBS / (now - start)} #{step}"
end

def add_all
  timed("perform_async, one by one") { JOBS.times { |number| Job.perform_async(number) } }
  timed("perform_bulk of #{BULK}") do
    (0...JOBS).each_slice(BULK) { |numbers| Job.perform_bulk(numbers.map { |number| [number] }) }
  end
end

# How many jobs wait, and how many the workers have done, as the server tells it.
def waiting = Sidekiq.redis { |redis| redis.llen("queue:default") }

def work_all
  worker = spawn("sidekiq", "-q", "default", "-r", File.expand_path(__FILE__), in: File::NULL, out: File::NULL, err: File::NULL)
  deadline = now + 240
  sleep 0.05 until File.size?(ENV["RATE"]) || now > deadline
  raise "not in time: #{waiting} jobs wait" unless File.size?(ENV["RATE"])
  raise "#{waiting} jobs are left" unless waiting.zero?
  puts "rate #{File.read(ENV["RATE"])} work, default concurrency"
ensure
  Process.kill("KILL", worker)
  Process.wait(worker)
  File.delete(ENV["RATE"])
end

unless Sidekiq.server?
  %w[sidekiq redis].each { |name| puts "version #{name} #{Gem.loaded_specs[name]&.version || Gem::Specification.find_by_name(name).version}" }
  100.times { |number| Job.perform_async(number) }
  Sidekiq.redis { |connection| connection.flushdb }
  add_all
  work_all
end
