package lifecycle

import "time"

// CheckOften runs the readiness checks every 5 ms instead of every second, each with the timeout.
func (a *App) CheckOften(timeout time.Duration) {
	a.ready.every, a.ready.timeout = 5*time.Millisecond, timeout
}
