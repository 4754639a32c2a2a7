package chaos_test

import (
	"time"

	"urr.guru/scripts/platform"
)

// disturbance does something bad and undoes it; what it leaves behind is the platform's to repair.
type disturbance struct {
	name string
	do   func()
}

// disturbances lists every kind there is, for every service and backend on a visitor's way.
func (r *run) disturbances() []disturbance {
	return append(r.ofServices(), r.ofBackends()...)
}

// ofServices harm processes and connections of the run alone.
func (r *run) ofServices() []disturbance {
	var all []disturbance
	for _, name := range []string{platform.Ticket, platform.Payment, platform.Queue, platform.VWR, platform.Stats} {
		all = append(all,
			disturbance{"kill " + name, func() { r.killAndStart(name, 0, time.Second) }},
			disturbance{"hang " + name, func() { r.hang(name, 1, 3*time.Second) }},
		)
	}
	return append(all,
		disturbance{"kill gateway", func() { r.killAndStart(platform.Gateway, 0, 0) }},
		disturbance{"kill every ticket", func() { r.killAll(platform.Ticket) }},
		disturbance{"kill every payment", func() { r.killAll(platform.Payment) }},
		disturbance{"deploy queue", func() { r.deploy(platform.Queue) }},
		disturbance{"cut payment off its provider", func() { r.cut(platform.Payment, platform.Sandbox) }},
		disturbance{"cut ticket off its database", func() { r.cut(platform.Ticket, "postgres") }},
		disturbance{"cut queue off redis", func() { r.cut(platform.Queue, "redis") }},
		disturbance{"slow redis", func() { r.slow(platform.Queue, "redis", 200*time.Millisecond) }},
	)
}

// ofBackends take backends of the run's own.
func (r *run) ofBackends() []disturbance {
	var all []disturbance
	for _, name := range []string{"redis", "postgres", "kafka", "dynamodb"} {
		all = append(all, disturbance{"hang " + name, func() {
			r.Backend(name).Pause()
			time.Sleep(3 * time.Second)
			r.Backend(name).Resume()
		}})
	}
	for _, name := range []string{"postgres", "kafka"} {
		all = append(all, disturbance{"kill " + name, func() {
			r.Backend(name).Kill9()
			time.Sleep(time.Second)
			r.Backend(name).Start()
		}})
	}
	return all
}

func (r *run) killAndStart(name string, i int, down time.Duration) {
	r.Service(name).Kill9(i)
	time.Sleep(down)
	r.Service(name).Start(i)
}

func (r *run) killAll(name string) {
	s := r.Service(name)
	for i := range s.Replicas() {
		s.Kill9(i)
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

// deploy replaces one replica after the other, as a rolling update does.
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
