package chaos_test

import (
	"time"

	"urr.guru/scripts/platform"
)

// fault injects a failure and ends it. The platform must repair its effects.
type fault struct {
	name string
	do   func()
}

// faults lists every fault, for every service and backend that a purchase uses.
func (r *run) faults() []fault {
	return append(r.serviceFaults(), r.backendFaults()...)
}

// serviceFaults affect only processes and connections of the run.
func (r *run) serviceFaults() []fault {
	var all []fault
	for _, name := range []string{platform.Ticket, platform.Payment, platform.Queue, platform.VWR, platform.Stats} {
		all = append(all,
			fault{"kill " + name, func() { r.killAndStart(name, 0, time.Second) }},
			fault{"hang " + name, func() { r.hang(name, 1, 3*time.Second) }},
		)
	}
	return append(all,
		fault{"kill gateway", func() { r.killAndStart(platform.Gateway, 0, 0) }},
		fault{"kill every ticket", func() { r.killAll(platform.Ticket) }},
		fault{"kill every payment", func() { r.killAll(platform.Payment) }},
		fault{"deploy queue", func() { r.deploy(platform.Queue) }},
		fault{"cut payment off its provider", func() { r.cut(platform.Payment, platform.Sandbox) }},
		fault{"cut ticket off its database", func() { r.cut(platform.Ticket, "postgres") }},
		fault{"cut queue off redis", func() { r.cut(platform.Queue, "redis") }},
		fault{"slow redis", func() { r.slow(platform.Queue, "redis", 200*time.Millisecond) }},
	)
}

// backendFaults affect the run's own backends.
func (r *run) backendFaults() []fault {
	var all []fault
	for _, name := range []string{"redis", "postgres", "kafka", "dynamodb"} {
		all = append(all, fault{"hang " + name, func() {
			r.Backend(name).Pause()
			time.Sleep(3 * time.Second)
			r.Backend(name).Resume()
		}})
	}
	for _, name := range []string{"postgres", "kafka"} {
		all = append(all, fault{"kill " + name, func() {
			r.Backend(name).Kill()
			time.Sleep(time.Second)
			r.Backend(name).Start()
		}})
	}
	return all
}

func (r *run) killAndStart(name string, i int, down time.Duration) {
	r.Service(name).Kill(i)
	time.Sleep(down)
	r.Service(name).Start(i)
}

func (r *run) killAll(name string) {
	s := r.Service(name)
	for i := range s.Replicas() {
		s.Kill(i)
	}
	for i := range s.Replicas() {
		s.Start(i)
	}
}

func (r *run) hang(name string, i int, long time.Duration) {
	r.Service(name).Pause(i)
	time.Sleep(long)
	r.Service(name).Resume(i)
}

// deploy replaces one replica after another, as a rolling update does.
func (r *run) deploy(name string) {
	s := r.Service(name)
	for i := range s.Replicas() {
		s.Stop(i)
		s.Start(i)
	}
}

func (r *run) cut(service, peer string) {
	link := r.Link(service, peer)
	link.Cut()
	time.Sleep(2 * time.Second)
	link.Heal()
}

func (r *run) slow(service, peer string, by time.Duration) {
	link := r.Link(service, peer)
	link.Delay(by)
	time.Sleep(3 * time.Second)
	link.Heal()
}
