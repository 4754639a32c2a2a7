package runner

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"urr.guru/scripts/platform"
)

// Env prints the environment that `make up` gives a service as shell commands, to run the service
// in a debugger or one of its commands (migrate) by hand. The output contains the checkout's
// secrets, which are valid nowhere else.
func (r *Runner) Env(w io.Writer, name string) error {
	s, err := platform.Lookup(name)
	if err != nil {
		return fmt.Errorf("name a service: make env S=queue: %w", err)
	}
	var failed []error
	for _, kv := range r.serviceEnv(s) {
		name, value, _ := strings.Cut(kv, "=")
		_, err := fmt.Fprintf(w, "export %s=%s\n", name, quote(value))
		failed = append(failed, err)
	}
	return errors.Join(failed...)
}

// quote quotes any value as one word of a POSIX shell.
func quote(value string) string {
	return "'" + strings.ReplaceAll(value, "'", `'\''`) + "'"
}
