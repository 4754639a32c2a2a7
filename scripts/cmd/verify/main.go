// Command verify checks a draw or a shuffle from what was published about it, without trusting the
// operator. It contacts nobody but the URL, and nobody at all for a file.
//
//	verify draw    URL|FILE [--receipt FILE]… [--earlier FILE]… [--entries FILE] [--save FILE]
//	verify shuffle URL|FILE …
//
// URL is that of the draw, such as https://tickets.example/api/v1/draws/ID; the file of its entries is
// read below it, at /entries. Beside a FILE the entries are FILE.entries, unless --entries names
// another. --save keeps both, with the time: such a copy, given as --earlier later, proves when the
// root existed, and shows whether anything was changed. A receipt is the text or the JSON that the
// application was answered with.
//
// The exit code is 0 when everything that is published so far is genuine, 1 when something is not, and
// 2 when that could not be checked.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"urr.guru/pkg/fairdraw"
	"urr.guru/scripts/internal/interrupt"
)

// Exit codes.
const (
	genuine    = 0
	faulty     = 1
	notChecked = 2
)

const usage = "usage: verify draw|shuffle URL|FILE [--receipt FILE]… [--earlier FILE]… [--entries FILE] [--save FILE]"

func main() {
	ctx, stop := interrupt.Context()
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr, time.Now)
	stop()
	os.Exit(code)
}

func run(ctx context.Context, args []string, out, problems io.Writer, now func() time.Time) int {
	a, err := parse(args)
	if err != nil {
		fmt.Fprintf(problems, "verify: %v\n%s\n", err, usage)
		return notChecked
	}
	report, err := a.verify(ctx, now)
	var fault *fairdraw.Fault
	switch {
	case errors.As(err, &fault):
		fmt.Fprintf(out, "FAULT %s: %s\n", fault.Code, printable(fault.Detail))
		return faulty
	case err != nil:
		fmt.Fprintln(problems, "verify:", printable(err.Error()))
		return notChecked
	}
	if err := write(out, report); err != nil {
		fmt.Fprintln(problems, "verify:", err)
		return notChecked
	}
	return genuine
}

// arguments are those of the command line.
type arguments struct {
	algorithm string
	source    string
	entries   string
	save      string
	receipts  []string
	earlier   []string
	client    *http.Client
}

func parse(args []string) (*arguments, error) {
	a := &arguments{client: &http.Client{Timeout: 2 * time.Minute}}
	if len(args) == 0 {
		return nil, errors.New("draw or shuffle is missing")
	}
	switch args[0] {
	case "draw":
		a.algorithm = fairdraw.AlgorithmDraw
	case "shuffle":
		a.algorithm = fairdraw.AlgorithmShuffle
	default:
		return nil, fmt.Errorf("%q is neither draw nor shuffle", args[0])
	}
	flags := flag.NewFlagSet("verify", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.StringVar(&a.entries, "entries", "", "")
	flags.StringVar(&a.save, "save", "", "")
	flags.Func("receipt", "", func(s string) error { a.receipts = append(a.receipts, s); return nil })
	flags.Func("earlier", "", func(s string) error { a.earlier = append(a.earlier, s); return nil })
	// Options may stand before and after the source.
	for rest := args[1:]; len(rest) > 0; {
		if err := flags.Parse(rest); err != nil {
			return nil, err
		}
		if rest = flags.Args(); len(rest) == 0 {
			break
		}
		if a.source != "" {
			return nil, fmt.Errorf("%q: there is one URL or file only", rest[0])
		}
		a.source, rest = rest[0], rest[1:]
	}
	if a.source == "" {
		return nil, errors.New("the URL or file is missing")
	}
	return a, nil
}

// verify reads everything and checks it. A copy is kept even of a draw with a fault: it is evidence.
func (a *arguments) verify(ctx context.Context, now func() time.Time) (*fairdraw.Report, error) {
	options := fairdraw.Options{Algorithm: a.algorithm}
	for _, file := range a.receipts {
		receipt, err := readReceipt(file)
		if err != nil {
			return nil, err
		}
		options.Receipts = append(options.Receipts, receipt)
	}
	for _, file := range a.earlier {
		earlier, err := readEarlier(file)
		if err != nil {
			return nil, err
		}
		options.Earlier = append(options.Earlier, earlier)
	}
	raw, document, err := a.readDocument(ctx)
	if err != nil {
		return nil, err
	}
	var entries []byte
	if document.Statement != nil {
		if entries, err = a.readEntries(ctx); err != nil {
			return nil, err
		}
	}
	if a.save != "" {
		if err := save(a.save, raw, entries, now()); err != nil {
			return nil, err
		}
	}
	return fairdraw.Verify(document, entries, options)
}

func isURL(s string) bool { return strings.HasPrefix(s, "https://") || strings.HasPrefix(s, "http://") }
