package lifecycle

import "time"

// Quick has the checks asked more often than every second, each with the given time to answer.
func (a *App) Quick(timeout time.Duration) {
	a.ready.every, a.ready.timeout = 5*time.Millisecond, timeout
}
