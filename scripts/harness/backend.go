package harness

import (
	"context"
	"slices"
	"syscall"
)

// Backends lists the names for Platform.Backend.
func Backends() []string { return []string{"redis", "postgres", "kafka", "dynamodb", "sqs"} }

// Backend is one of the platform's backends. At the end of the run it is restored to a running
// state; its data is kept.
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

// Kill kills the server: unwritten data is lost.
func (b Backend) Kill() { b.signal(syscall.SIGKILL) }

// Pause suspends the server: connections stay open, and it does not respond.
func (b Backend) Pause() { b.signal(syscall.SIGSTOP) }

// Resume ends a pause.
func (b Backend) Resume() { b.signal(syscall.SIGCONT) }

// Start restarts the server after Kill and returns when it is ready.
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
