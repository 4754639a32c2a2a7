package chaos_test

import (
	"time"

	"urr.guru/scripts/platform"
)

// fault injects a failure and ends it. The platform must then repair the effects.
type fault struct {
	name   string
	inject func()
}

// faults lists every fault, for every service and backend that a purchase uses.
func (r *run) faults() []fault {
	return append(r.serviceFaults(), r.backendFaults()...)
}

// serviceFaults affect only processes and connections of the run.
func (r *run) serviceFaults() []fault {
	all := r.shortFaults()
	for _, name := range []string{platform.Ticket, platform.Payment, platform.Stats} {
		all = append(all, fault{"kill " + name, func() { r.killAndStart(name, 0, time.Second) }})
	}
	return append(all,
		fault{"kill every ticket", func() { r.killAll(platform.Ticket) }},
		fault{"kill every payment", func() { r.killAll(platform.Payment) }},
	)
}

// shortFaults are the service faults whose effects are repaired within seconds. These are no kills
// of the ticket or stats service, whose Kafka events wait until the session of the dead consumer
// ends (10 s), or of the payment service, whose charges wait for the end of their leases.
func (r *run) shortFaults() []fault {
	var all []fault
	for _, name := range []string{platform.Ticket, platform.Payment, platform.Queue, platform.VWR, platform.Stats} {
		all = append(all, fault{"hang " + name, func() { r.hang(name, 1, r.size.hang) }})
	}
	return append(all,
		fault{"kill queue", func() { r.killAndStart(platform.Queue, 0, time.Second) }},
		fault{"kill vwr", func() { r.killAndStart(platform.VWR, 0, time.Second) }},
		fault{"kill gateway", func() { r.killAndStart(platform.Gateway, 0, 0) }},
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

func (r *run) hang(name string, i int, duration time.Duration) {
	r.Service(name).Pause(i)
	time.Sleep(duration)
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
	time.Sleep(r.size.cut)
	link.Heal()
}

func (r *run) slow(service, peer string, delay time.Duration) {
	link := r.Link(service, peer)
	link.Delay(delay)
	time.Sleep(r.size.hang)
	link.Heal()
}
