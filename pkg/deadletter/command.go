package deadletter

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"urr.guru/pkg/kafka"
	"urr.guru/pkg/lifecycle"
)

const (
	usage = "kafka redrive [--topic TOPIC] [--max N] [--list]"
	help  = "Publishes dead letters of the service's consumer group again, unchanged and each once, the oldest first: those that are\n" +
		"there when it starts. Those of a key keep their order, and come after all that the key has had since. It may be stopped\n" +
		"and run again at any time.\n"
)

// Command makes the command `<name> kafka redrive` of a service. open opens the store that records
// which letters were redriven before.
func Command[C any](
	name string, source func(*C) Source, open func(ctx context.Context, cfg *C) (marks Marks, closeMarks func(), err error),
) lifecycle.Command[C] {
	return lifecycle.Command[C]{Usage: usage, Run: func(ctx context.Context, cfg *C, args []string, out io.Writer) error {
		opts, err := parseArgs(name, source(cfg).Topics, args, out)
		if err != nil || opts == nil {
			return err
		}
		marks, closeMarks, err := open(ctx, cfg)
		if err != nil {
			return err
		}
		defer closeMarks()
		producer, err := kafka.NewRedriver(source(cfg).Kafka, name+"-redrive")
		if err != nil {
			return err
		}
		defer func() { _ = producer.Close(context.WithoutCancel(ctx)) }() // every publication was awaited
		return New(source(cfg), producer, marks).redriveTopics(ctx, opts, out)
	}}
}

// redriveOptions are the arguments of the command `kafka redrive`.
type redriveOptions struct {
	topics []string
	limit  int
	list   bool
}

// parseArgs reads the arguments of the command. After it has printed the help it returns nil
// options and no error.
func parseArgs(name string, topics, args []string, out io.Writer) (*redriveOptions, error) {
	flags := flag.NewFlagSet("redrive", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	topic := flags.String("topic", "", "of one `TOPIC` only: "+strings.Join(topics, ", "))
	limit := flags.Int("max", 0, "at most `N` of them")
	list := flags.Bool("list", false, "print them, and publish nothing")
	usageError := errors.New("usage: " + name + " " + usage)
	named := len(args) > 0 && args[0] == "redrive"
	if named {
		args = args[1:]
	}
	err := flags.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprintf(out, "%s\n%s", usageError, help)
		flags.SetOutput(out)
		flags.PrintDefaults()
		return nil, nil
	case !named || err != nil || flags.NArg() > 0 || *limit < 0:
		return nil, usageError
	case *topic != "" && !slices.Contains(topics, *topic):
		return nil, fmt.Errorf("--topic %q: must be %s", *topic, strings.Join(topics, " or "))
	case *topic != "":
		topics = []string{*topic}
	}
	return &redriveOptions{topics: topics, limit: cmp.Or(*limit, math.MaxInt), list: *list}, nil
}

// redriveTopics redrives or lists the letters of each topic. It prints one line of counts per
// topic, also for the topic at which it fails.
func (l *Letters) redriveTopics(ctx context.Context, opts *redriveOptions, out io.Writer) error {
	lines := bufio.NewWriter(out)
	remaining, refused := opts.limit, 0
	var failed error
	for _, topic := range opts.topics {
		n, refusals, err := l.redriveTopic(ctx, topic, remaining, opts.list, lines)
		remaining, refused, failed = remaining-n, refused+refusals, err
		state := "redriven"
		if opts.list {
			state = "not redriven yet"
		}
		fmt.Fprintf(lines, "%s: %d %s, %d refused by the broker\n", topic, n, state, refusals)
		if failed != nil || remaining == 0 {
			break
		}
	}
	if failed == nil && refused > 0 {
		failed = &lifecycle.Exit{Code: 1}
	}
	return errors.Join(failed, lines.Flush())
}

// redriveTopic redrives at most limit letters of one topic, or only lists them if listOnly is set.
// n is the number of these letters, and refused how many of them the broker refused.
func (l *Letters) redriveTopic(ctx context.Context, topic string, limit int, listOnly bool, out io.Writer) (n, refused int, err error) {
	span, err := l.reader.Span(ctx, topic)
	if err != nil {
		return 0, 0, err
	}
	for !span.Empty() && n < limit {
		letters, remaining, err := l.Next(ctx, topic, span, limit-n)
		if err != nil {
			return n, refused, err
		}
		if span = remaining; listOnly {
			n += len(letters)
			for i := range letters {
				m := toMessage(&letters[i])
				fmt.Fprintf(out, "%s\t%s\t%s\t%q\t%s\t%q\n", topic, m.GetId(), letters[i].Time.UTC().Format(time.RFC3339), m.GetKey(), m.GetType(), m.GetError())
			}
			continue
		}
		done, err := l.Redrive(ctx, topic, letters)
		n, refused = n+len(done.Redriven), refused+len(done.Refused)
		for _, id := range done.Refused {
			fmt.Fprintf(out, "%s\t%s\trefused by the broker\n", topic, id)
		}
		if err != nil {
			return n, refused, err
		}
	}
	return n, refused, nil
}
