package lifecycle

import "time"

// Quick runs the checks more often than every second, each with the given timeout.
func (a *App) Quick(timeout time.Duration) {
	a.ready.every, a.ready.timeout = 5*time.Millisecond, timeout
}
