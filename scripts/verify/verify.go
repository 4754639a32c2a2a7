// Package verify checks a draw or a shuffle from its public document and entries, without trusting
// the operator.
package verify

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"iter"
	"net/http"
	"os"
	"strings"
	"time"

	"urr.guru/pkg/fairdraw"
)

// Exit codes of the command verify.
const (
	genuine = iota
	faulty
	notChecked
	trusting // no fault, but the beacon's owner may have known its values beforehand
)

const usage = "usage: verify draw|shuffle URL|FILE [--receipt FILE]… [--earlier FILE]… [--entries FILE] [--save FILE] [--trust-chain HASH]"

// Run runs the command verify with its arguments. It returns the exit code.
func Run(ctx context.Context, args []string, out, problems io.Writer, now func() time.Time) int {
	a, err := parseArguments(args)
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
	knownBeacon := a.knowsBeacon(&report.Commitment)
	if err := printReport(out, report, knownBeacon); err != nil {
		fmt.Fprintln(problems, "verify:", err)
		return notChecked
	}
	if !knownBeacon {
		return trusting
	}
	return genuine
}

// arguments has the values of the command-line arguments, and the HTTP client.
type arguments struct {
	algorithm string
	source    string
	entries   string
	save      string
	receipts  []string
	earlier   []string
	trusted   string // hash of the chain of a beacon whose owner the user trusts
	client    *http.Client
}

// knowsBeacon reports whether the draw's beacon is a public network, or one that the user trusts.
// It is also true if there is no beacon: the report then says that the operator must be trusted.
func (a *arguments) knowsBeacon(c *fairdraw.Commitment) bool {
	return c.Beacon == nil || c.Beacon.Network() != "" || c.Beacon.ChainHash == a.trusted
}

func parseArguments(args []string) (*arguments, error) {
	a := &arguments{client: &http.Client{Timeout: 2 * time.Minute}}
	if len(args) == 0 {
		return nil, errors.New("draw or shuffle is missing")
	}
	a.algorithm = map[string]string{"draw": fairdraw.AlgorithmDraw, "shuffle": fairdraw.AlgorithmShuffle}[args[0]]
	if a.algorithm == "" {
		return nil, fmt.Errorf("%q is neither draw nor shuffle", args[0])
	}
	flags := flag.NewFlagSet("verify", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.StringVar(&a.entries, "entries", "", "")
	flags.StringVar(&a.save, "save", "", "")
	flags.StringVar(&a.trusted, "trust-chain", "", "")
	flags.Func("receipt", "", func(s string) error { a.receipts = append(a.receipts, s); return nil })
	flags.Func("earlier", "", func(s string) error { a.earlier = append(a.earlier, s); return nil })
	// Options may come before and after the source, but Parse stops at the source.
	for remaining := args[1:]; len(remaining) > 0; {
		if err := flags.Parse(remaining); err != nil {
			return nil, err
		}
		if remaining = flags.Args(); len(remaining) == 0 {
			break
		}
		if a.source != "" {
			return nil, fmt.Errorf("%q: there is one URL or file only", remaining[0])
		}
		a.source, remaining = remaining[0], remaining[1:]
	}
	if a.source == "" {
		return nil, errors.New("the URL or file is missing")
	}
	return a, nil
}

// verify reads the document, the entries and the receipts, and checks them. With --save it writes a
// copy, which is evidence, even of a faulty draw.
func (a *arguments) verify(ctx context.Context, now func() time.Time) (*fairdraw.VerificationReport, error) {
	options := fairdraw.Options{Algorithm: a.algorithm, Now: now()}
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
	raw, err := a.readSource(ctx, a.source)
	if err != nil {
		return nil, err
	}
	document, err := fairdraw.ParseDocument(raw)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", a.source, err)
	}
	entries := a.readEntries(ctx)
	if a.save != "" {
		if err := save(a.save, raw, document, entries, now()); err != nil {
			return nil, err
		}
		entries = a.pieces(ctx, entriesBeside(a.save))
	}
	return fairdraw.VerifyChunks(document, entries, options)
}

func readReceipt(file string) (string, error) {
	raw, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	text := strings.TrimSpace(string(raw))
	if !strings.HasPrefix(text, "{") {
		return text, nil
	}
	var answer struct {
		Receipt string `json:"receipt"`
	}
	if err := json.Unmarshal(raw, &answer); err != nil {
		return "", fmt.Errorf("%s: %w", file, err)
	}
	if answer.Receipt == "" {
		return "", fmt.Errorf("%s: no receipt", file)
	}
	return answer.Receipt, nil
}

// readEarlier reads a copy of the document that was saved earlier. If the copy does not contain the
// time when it was saved, the modification time of the file is used.
func readEarlier(file string) (*fairdraw.Document, error) {
	raw, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	document, err := fairdraw.ParseDocument(raw)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if document.SavedAt == 0 {
		info, err := os.Stat(file)
		if err != nil {
			return nil, err
		}
		document.SavedAt = info.ModTime().UnixMilli()
	}
	return document, nil
}

// save writes the document with the time to a file, and the entries to another file beside it. It
// never overwrites a file, since an earlier copy is evidence.
func save(file string, raw []byte, d *fairdraw.Document, entries iter.Seq2[[]byte, error], savedAt time.Time) error {
	document := map[string]json.RawMessage{}
	if err := json.Unmarshal(raw, &document); err != nil {
		return err
	}
	for name := range document { // JSON decoding ignores the case of names
		if strings.EqualFold(name, "savedAt") {
			delete(document, name)
		}
	}
	document["savedAt"] = json.RawMessage(fmt.Sprint(savedAt.UnixMilli()))
	raw, err := json.MarshalIndent(document, "", "  ")
	if err != nil {
		return err
	}
	content := func(yield func([]byte, error) bool) { yield(append(raw, '\n'), nil) }
	if err := createFile(file, content); err != nil || d.Statement == nil {
		return err
	}
	if err := createFile(entriesBeside(file), entries); err != nil {
		return errors.Join(err, os.Remove(file))
	}
	return nil
}

// createFile writes content to a new file. If content yields an error, it removes the file again.
func createFile(file string, content iter.Seq2[[]byte, error]) error {
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	for piece, readErr := range content {
		if err = readErr; err == nil {
			_, err = f.Write(piece)
		}
		if err != nil {
			break
		}
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(err, os.Remove(file))
	}
	return nil
}
