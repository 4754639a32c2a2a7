package plan

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"math/bits"
	"strings"
	"text/tabwriter"
)

// Usage is the usage of Command, and WarmUsage that of the flags of WarmFlags.
const (
	Usage     = "plan --visitors N --within SECONDS"
	WarmUsage = "[--warm --visitors N --within SECONDS]"
)

// Command writes the plan for the crowd in args.
func Command(args []string, out io.Writer) error {
	e, err := parse(flag.NewFlagSet("plan", flag.ContinueOnError), args)
	if err == nil && !e.Any() {
		err = errors.New("--visitors and --within are required")
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

// WarmFlags parses args with flags, to which it adds --warm, --visitors and --within. They must be
// given together. Without them nobody is expected.
func WarmFlags(flags *flag.FlagSet, args []string) (Expected, error) {
	warm := flags.Bool("warm", false, "")
	e, err := parse(flags, args)
	if err == nil && *warm != e.Any() {
		err = errors.New("--warm needs --visitors and --within, which need it")
	}
	return e, err
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
	for _, bad := range e.Check() {
		return e, fmt.Errorf("--visitors and --within: %s %s", strings.TrimPrefix(bad.Path, "expected."), bad.Message)
	}
	return e, nil
}

// Write writes what openings with this crowd need, and how it is computed.
func Write(out io.Writer, f Figures, e Expected) error {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0) // writing to memory never fails
	fmt.Fprintf(w, `%s visitors within %d s. Cores are requests per second × CPU-µs ÷ 1,000,000 ÷ %.1f: at the peak
a process is at most half busy. All peaks count at once, which overestimates.
`, Thousands(e.Visitors), e.WithinSeconds, Busy)
	for _, kind := range []Kind{Sale, Promotion, Campaign} {
		o := Opening{kind, e}
		f.writeProcesses(w, o)
		writeStores(w, o)
		f.writeRequests(w, "requests", o.Requests())
		f.writeConditions(w, o)
		_ = w.Flush()
	}
	_, err := io.WriteString(out, b.String())
	return err
}

func (f Figures) writeProcesses(w io.Writer, o Opening) {
	fmt.Fprintf(w, "\n%s\tcores\tat least\n", strings.ToUpper(string(o.Kind)))
	for _, process := range o.Processes() {
		cores, _ := f.Need(process, o)
		fmt.Fprintf(w, "%s\t%s\t%s\n", process, f.NeedText(process, o), machine(process, int(math.Ceil(cores))))
	}
	if mb, ok := f.LineMemory(o); ok && o.Kind == Sale {
		fmt.Fprintf(w, "memory of Redis for the line\t\t%s MB\n", Number(mb))
	}
}

// NeedText formats Need.
func (f Figures) NeedText(process string, o Opening) string {
	switch cores, missing := f.Need(process, o); {
	case cores == 0:
		return "not measured"
	case len(missing) > 0:
		return Number(cores) + ", without " + strings.Join(missing, ", ")
	default:
		return Number(cores)
	}
}

// machine says on what a process runs: on pods with requests.cpu of 1, or on a class of AWS with so
// many processors. A node of Redis runs its commands on one processor.
func machine(process string, cores int) string {
	classes := []string{"large", "xlarge", "2xlarge", "4xlarge", "8xlarge", "16xlarge"}
	class := bits.Len(uint(max(2, cores)-1)) - 1 //nolint:gosec // positive
	switch {
	case process == redis || process == limitsRedis:
		return fmt.Sprintf("%d × cache.m7g.large", max(1, cores))
	case !strings.Contains(process, "PostgreSQL"):
		return fmt.Sprintf("%d pods of 1 CPU", max(2, cores))
	case class >= len(classes):
		return "PostgreSQL: no class is large enough"
	default:
		return "PostgreSQL: db.m7g." + classes[class]
	}
}

// newTableWrites is how many writes per second a new on-demand table, or its index, accepts.
const newTableWrites = 4000

func writeStores(w io.Writer, o Opening) {
	fmt.Fprintf(w, "\nstore\tper second\t\n")
	for _, l := range o.Loads() {
		warm := ""
		if l.Warm > newTableWrites {
			warm = "; warm it to " + Number(l.Warm) + ": a new one takes " + Thousands(newTableWrites)
		}
		fmt.Fprintf(w, "DynamoDB %s\t%s write units\t= %s%s\n", strings.TrimSpace(l.Table+" "+l.Index), Number(l.Writes), l.Sum, warm)
		if l.Reads > 0 {
			fmt.Fprintf(w, "\t%s read units\t\n", Number(l.Reads))
		}
	}
	message := func(to string, n float64, what string) { fmt.Fprintf(w, "%s\t%s messages\t%s\n", to, Number(n), what) }
	calls := func(n float64) string {
		return Number(n/10) + " calls each to send, receive and delete; a FIFO group takes 300, of 10 messages"
	}
	switch o.Kind {
	case Sale:
		message("SQS admissions, if enabled", Admitted, calls(Admitted))
		message("Kafka reservation-events", Admitted+Admitted/2, "created by each hold, confirmed by each payment")
		message("Kafka payment-events", Admitted/2, "one per payment")
	case Promotion:
		message("SQS requests", o.PerSecond(), calls(o.PerSecond()))
		fmt.Fprintf(w, "\t\tfirst come is one group, of which at most %s are settled; a lottery is 64; %d shards\n", Thousands(SettledPerSecond), o.Shards())
		message("Kafka request-events", o.settled(), "one per settled request")
	default:
		message("Kafka reward-events", o.PerSecond(), "one per reward, as fast as its provider pays")
	}
}

// writeRequests writes the arithmetic of requests.
func (f Figures) writeRequests(w io.Writer, title string, requests []Requests) {
	fmt.Fprintf(w, "\n%s\tper second\tprocess\trow\tcores\n", title)
	for _, r := range requests {
		name, rate := r.Name, r.Text()
		for _, c := range r.Costs {
			row, µs, n, ok := f.Cores(c, r.PerSecond)
			cores, both := "not measured", ""
			if c.part == "" {
				both = fmt.Sprintf(" × %d processors", f.Processors)
			}
			if ok {
				cores = fmt.Sprintf("%s × %s µs%s ÷ 1,000,000 ÷ %.1f = %s", Number(r.PerSecond), Number(µs), both, Busy, Number(n/Busy))
			}
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", name, rate, c.Process, row, cores)
			name, rate = "", ""
		}
	}
}

// Text returns the calculation with its result.
func (r Rate) Text() string {
	if n := Number(r.PerSecond); n != r.Sum {
		return r.Sum + " = " + n
	}
	return r.Sum
}
