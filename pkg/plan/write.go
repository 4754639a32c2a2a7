package plan

import (
	"errors"
	"fmt"
	"io"
	"math"
	"math/bits"
	"slices"
	"strings"
	"text/tabwriter"
)

// Write writes what openings with this crowd need, and how it is computed.
func Write(out io.Writer, f Figures, e Expected) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	_, err := fmt.Fprintf(w, `%s visitors within %d s. Cores are requests per second × CPU-µs ÷ 1,000,000 ÷ %.1f: at the peak
a process is at most half busy. All peaks count at once, which overestimates.
`, Thousands(e.Visitors), e.WithinSeconds, Busy)
	for _, kind := range []Kind{Sale, Promotion, Campaign} {
		o := Opening{kind, e}
		err = errors.Join(err, f.writeProcesses(w, o), writeStores(w, o), f.writeArithmetic(w, o), w.Flush())
	}
	return err
}

func (f Figures) writeProcesses(w io.Writer, o Opening) error {
	_, err := fmt.Fprintf(w, "\n%s\tcores\tat least\n", strings.ToUpper(string(o.Kind)))
	for _, process := range o.Processes() {
		cores, missing := f.Need(process, o)
		need := Number(cores)
		switch {
		case cores == 0:
			need = "not measured"
		case len(missing) > 0:
			need += ", without " + strings.Join(missing, ", ")
		}
		_, more := fmt.Fprintf(w, "%s\t%s\t%s\n", process, need, machine(process, cores))
		err = errors.Join(err, more)
	}
	if mb, ok := f.LineMemory(o); ok && o.Kind == Sale {
		_, more := fmt.Fprintf(w, "memory of Redis for the line\t\t%s MB\n", Number(mb))
		err = errors.Join(err, more)
	}
	return err
}

// machine says what runs a process: pods with requests.cpu of 1, or a class of AWS by its processors.
func machine(process string, cores float64) string {
	n := int(math.Ceil(cores))
	switch {
	case process == Redis || process == LimitsRedis: // a node runs its commands on one processor
		return fmt.Sprintf("%d × cache.m7g.large", max(1, n))
	case strings.Contains(process, "PostgreSQL"):
		return "PostgreSQL: " + class(n)
	default:
		return fmt.Sprintf("%d pods of 1 CPU", max(2, n))
	}
}

// class returns the smallest class of RDS with so many processors.
func class(cores int) string {
	names := []string{"large", "xlarge", "2xlarge", "4xlarge", "8xlarge", "16xlarge"}
	size := bits.Len(uint(max(2, cores) - 1)) //nolint:gosec // positive
	if size > len(names) {
		return "none is large enough"
	}
	return "db.m7g." + names[size-1]
}

func writeStores(w io.Writer, o Opening) error {
	var b strings.Builder
	fmt.Fprintf(&b, "\nstore\tper second\t\n")
	for _, l := range o.Loads() {
		warm := ""
		if l.Writes > NewTableWrites {
			warm = "; warm it: a new one takes " + Thousands(NewTableWrites)
		}
		fmt.Fprintf(&b, "DynamoDB %s\t%s write units\t= %s%s\n", strings.TrimSuffix(l.Table+" "+l.Index, " "), Number(l.Writes), l.Sum, warm)
		if l.Reads > 0 {
			fmt.Fprintf(&b, "\t%s read units\t\n", Number(l.Reads))
		}
	}
	if o.Kind == Sale {
		fmt.Fprintf(&b, "\t\tthe positions of a room need shards %.0f; a partition takes %s\n", min(maxRoomShards, max(1, math.Ceil(o.PerSecond()/partitionWrites))), Thousands(partitionWrites))
	}
	for _, m := range o.sqs() {
		fmt.Fprintf(&b, "SQS %s\t%s messages\t%s; %s calls each to send, receive and delete; a FIFO group takes 300, of 10 messages\n", m.to, Number(m.n), m.sum, Number(m.n/10))
	}
	if o.Kind == Promotion {
		fmt.Fprintf(&b, "\t\tfirst come is one group, of which at most %s are settled; a lottery is 64; %d shards\n", Thousands(SettledPerSecond), o.Shards())
	}
	for _, m := range o.kafka() {
		fmt.Fprintf(&b, "Kafka %s\t%s messages\t%s\n", m.to, Number(m.n), m.sum)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (f Figures) writeArithmetic(w io.Writer, o Opening) error {
	var b strings.Builder
	b.WriteString("\nrequests\tper second\tprocess\trow\tcores\n")
	for _, r := range o.Requests() {
		name, rate := r.Name, r.Sum
		if n := Number(r.PerSecond); n != rate {
			rate += " = " + n
		}
		for _, c := range r.Costs {
			cores := "not measured"
			if µs, n, ok := f.Cores(c, r.PerSecond); ok {
				cores = fmt.Sprintf("%s × %s µs ÷ 1,000,000 ÷ %.1f = %s", Number(r.PerSecond), Number(µs), Busy, Number(n/Busy))
				if c.part == "" {
					cores = strings.Replace(cores, " µs", fmt.Sprintf(" µs × %d processors", f.Processors), 1)
				}
			}
			fmt.Fprintf(&b, "%s\t%s\t%s\t%s\t%s\n", name, rate, c.Process, f.Row(c), cores)
			name, rate = "", ""
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// ServiceCores returns the processors that each service needs, without what was measured together
// with stores.
func (f Figures) ServiceCores(o Opening) map[string]float64 {
	out := map[string]float64{}
	for _, process := range o.Processes() {
		if slices.Contains([]string{Redis, LimitsRedis}, process) || strings.Contains(process, ",") {
			continue
		}
		if cores, _ := f.Need(process, o); cores > 0 {
			out[process] = cores
		}
	}
	return out
}
