package harness

import (
	"context"
	"slices"
	"syscall"
)

// Backends lists the names for Platform.Backend.
func Backends() []string { return []string{"redis", "postgres", "kafka", "dynamodb", "sqs"} }

// Backend is one of the servers under the platform. Whatever a test did to it is undone when the
// run ends; its data stays.
type Backend struct {
	p    *Platform
	name string
}

// Backend returns a backend of the run; it needs Options.OwnBackends.
func (p *Platform) Backend(name string) Backend {
	p.tb.Helper()
	if !slices.Contains(Backends(), name) {
		p.tb.Fatalf("harness: no backend %q: %v", name, Backends())
	}
	if !p.opts.OwnBackends {
		p.tb.Fatalf("harness: %s is everybody's here: Options.OwnBackends starts one for the run", name)
	}
	return Backend{p: p, name: name}
}

// Kill9 ends the server as a power cut of its process would: what it had not written is lost.
func (b Backend) Kill9() { b.signal(syscall.SIGKILL) }

// Pause makes the server hang: connections stay, nothing answers.
func (b Backend) Pause() { b.signal(syscall.SIGSTOP) }

// Resume ends a pause.
func (b Backend) Resume() { b.signal(syscall.SIGCONT) }

// Start brings the server up again after Kill9 and returns when it is ready.
func (b Backend) Start() {
	b.p.tb.Helper()
	ctx, cancel := context.WithTimeout(b.p.tb.Context(), readyLimit)
	defer cancel()
	if err := b.p.workspace.backends.Start(ctx); err != nil {
		b.p.tb.Fatalf("harness: start %s: %v", b.name, err)
	}
}

func (b Backend) signal(sig syscall.Signal) {
	b.p.tb.Helper()
	if err := b.p.workspace.backends.Signal(b.name, sig); err != nil {
		b.p.tb.Fatalf("harness: %v", err)
	}
}
