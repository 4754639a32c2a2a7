package process

import "runtime"

// Children starts processes that cannot outlive this one, even when it is killed or panics. The
// kernel ties a child to the thread that started it (PR_SET_PDEATHSIG), so one thread that lives as
// long as the program starts all of them.
type Children struct {
	queue chan func()
}

// NewChildren starts the thread, which runs until the program ends.
func NewChildren() *Children {
	n := &Children{queue: make(chan func())}
	go func() {
		runtime.LockOSThread()
		for start := range n.queue {
			start()
		}
	}()
	return n
}

// Start is process.Start for a process that ends with this one.
func (n *Children) Start(spec Spec) (p *Process, err error) {
	spec.Bound = true
	done := make(chan struct{})
	n.queue <- func() {
		defer close(done)
		p, err = Start(spec)
	}
	<-done
	return p, err
}
