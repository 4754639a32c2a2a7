package plan

import (
	"errors"
	"flag"
	"fmt"
	"io"
)

// Usage is the usage of the command that Command runs, and WarmUsage that of the flags of WarmFlags.
const (
	Usage     = "plan --visitors N --within SECONDS"
	WarmUsage = "[--warm --visitors N --within SECONDS]"
)

// Command writes what the crowd in args needs.
func Command(args []string, out io.Writer) error {
	flags := flag.NewFlagSet("plan", flag.ContinueOnError)
	e, err := parse(flags, args)
	if err == nil {
		err = e.checkFlags()
	}
	if err != nil {
		return fmt.Errorf("%w\nusage: %s", err, Usage)
	}
	f, err := Kept()
	if err != nil {
		return err
	}
	return Write(out, f, e)
}

// WarmFlags parses args by flags, to which it adds --warm, which needs --visitors and --within.
// Without it nobody is expected.
func WarmFlags(flags *flag.FlagSet, args []string) (Expected, error) {
	warm := flags.Bool("warm", false, "")
	e, err := parse(flags, args)
	switch {
	case err != nil:
		return e, err
	case *warm:
		return e, e.checkFlags()
	case e != (Expected{}):
		return e, errors.New("--visitors and --within need --warm")
	default:
		return e, nil
	}
}

func parse(flags *flag.FlagSet, args []string) (e Expected, err error) {
	flags.SetOutput(io.Discard)
	flags.Int64Var(&e.Visitors, "visitors", 0, "")
	flags.Int64Var(&e.WithinSeconds, "within", 0, "")
	if err := flags.Parse(args); err != nil {
		return e, err
	}
	if flags.NArg() > 0 {
		return e, fmt.Errorf("unknown argument %q", flags.Arg(0))
	}
	return e, nil
}

func (e Expected) checkFlags() error {
	switch {
	case e.Visitors < 1 || e.Visitors > MaxVisitors:
		return fmt.Errorf("--visitors must be from 1 to %d", MaxVisitors)
	case e.WithinSeconds < 1 || e.WithinSeconds > MaxWithinSeconds:
		return fmt.Errorf("--within must be from 1 to %d seconds", MaxWithinSeconds)
	}
	return nil
}
