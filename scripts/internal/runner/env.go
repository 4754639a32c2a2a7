package runner

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"urr.guru/scripts/platform"
)

// Env prints the environment that `make up` gives a service, as commands for a shell: with it the
// service runs under a debugger, or a command of its own (migrate) by hand. It holds the checkout's
// secrets, which are good for nothing outside it.
func (r *Runner) Env(w io.Writer, name string) error {
	s, err := platform.Lookup(name)
	if err != nil {
		return fmt.Errorf("name a service: make env S=queue: %w", err)
	}
	var failed []error
	for _, kv := range r.own(s) {
		name, value, _ := strings.Cut(kv, "=")
		_, err := fmt.Fprintf(w, "export %s=%s\n", name, quote(value))
		failed = append(failed, err)
	}
	return errors.Join(failed...)
}

// quote makes one word of a value for any shell of POSIX, whatever it holds.
func quote(value string) string {
	return "'" + strings.ReplaceAll(value, "'", `'\''`) + "'"
}
