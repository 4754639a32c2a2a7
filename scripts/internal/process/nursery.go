package process

import "runtime"

// Nursery starts processes that cannot outlive this one, even when it is killed or panics. The kernel
// ties a child to the thread that started it (PR_SET_PDEATHSIG), so that all are started by one
// thread that lives as long as the program.
type Nursery struct {
	births chan func()
}

// NewNursery makes a nursery; its thread stays until the program ends.
func NewNursery() *Nursery {
	n := &Nursery{births: make(chan func())}
	go func() {
		runtime.LockOSThread()
		for birth := range n.births {
			birth()
		}
	}()
	return n
}

// Start is process.Start for a process that ends with this one.
func (n *Nursery) Start(spec Spec) (p *Process, err error) {
	spec.Bound = true
	done := make(chan struct{})
	n.births <- func() {
		defer close(done)
		p, err = Start(spec)
	}
	<-done
	return p, err
}
