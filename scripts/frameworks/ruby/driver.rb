# A program's side of the talk with the driver, and what several programs need.
require "set"
require "tempfile"

$stdout.sync = true
# A worker is another process, whose arguments are its framework's: it is told by the environment.
ENV["DRIVER"] ||= ARGV.join(" ")
SCENARIO, HOST, PORT = ENV["DRIVER"].split
URL = "redis://#{HOST}:#{PORT}"
ENV["RECORD"] ||= Tempfile.create("record").path

# Names of jobs that were done, in a file to which several processes append.
module Record
  def self.add(name) = File.open(ENV["RECORD"], "a") { |file| file.write("#{name}\n") }
  def self.names = File.read(ENV["RECORD"]).split
  def self.done = Set.new(names)
end

# Has the server killed, and waits until it is back.
def kill
  puts "kill"
  $stdin.gets
end

def version(gem) = puts("version #{gem} #{Gem.loaded_specs[gem]&.version || Gem::Specification.find_by_name(gem).version}")

def wait_until(what)
  deadline = Time.now + 30
  loop do
    holds = begin
      yield
    rescue StandardError
      false
    end
    return if holds
    raise "not in time: #{what}" if Time.now > deadline
    sleep 0.02
  end
end

# Does work in a thread, again and again; returns the names of what was acknowledged, and how to stop it.
def produce(pause = 0.01)
  acknowledged = []
  stopped = false
  thread = Thread.new do
    number = 0
    until stopped
      name = "job#{number += 1}"
      begin
        yield name
        acknowledged << name
      rescue StandardError
        sleep 0.05
      end
      sleep pause
    end
  end
  [acknowledged, -> { stopped = true; thread.join(10) }]
end

# The gate at which the job `waits` waits: workers of this kind pop a job before they do it, so that one popped while
# the server is killed may be lost, on Redis as here.
def gate = "#{ENV["RECORD"]}.gate"

def wait_at_gate
  sleep 0.02 until File.exist?(gate)
end

# Produces across a kill, in which each of the workers is in a job that waits; everything acknowledged must be done.
def across(waiting, enqueue_waiting, pause: 0.01, &enqueue)
  acknowledged, stop = produce(pause, &enqueue)
  wait_until("the worker works") { Record.done.size > 20 }
  waiting.times { enqueue_waiting.call }
  wait_until("the workers wait") { Record.names.count("waits") == waiting }
  kill
  File.write(gate, "")
  done = Record.done.size
  wait_until("jobs are done again") { Record.done.size > done + 30 }
  stop.call
  lost = -> { Set.new(acknowledged) - Record.done }
  begin
    wait_until("all acknowledged jobs are done") { lost.call.empty? }
  rescue StandardError
    raise "#{lost.call.size} of #{acknowledged.size} jobs are lost: #{lost.call.first(10)}"
  end
  "#{acknowledged.size} jobs"
end

def run_scenario
  puts "pass #{yield}"
rescue Exception => error
  puts error.full_message(highlight: false)
  puts "fail #{error.message.tr("\n", " ")}"
ensure
  [ENV["RECORD"], gate].each { |path| File.delete(path) if File.exist?(path) }
end
