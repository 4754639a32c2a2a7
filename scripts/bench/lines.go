package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"urr.guru/pkg/loop"
	"urr.guru/pkg/rounds"
	commonv1 "urr.guru/proto/gen/urr/common/v1"
	queuev1 "urr.guru/proto/gen/urr/queue/v1"
	ticketv1 "urr.guru/proto/gen/urr/ticket/v1"
	"urr.guru/scripts/harness"
	"urr.guru/scripts/platform"
)

const (
	lineReplicas = 3
	// openLines are open, in busyLines of them lineVisitors wait behind a slot holder, each with a
	// poll per second.
	openLines, busyLines, lineVisitors = 1000, 10, 20
	// linesSettle is how long the replicas run before they are measured: settings and sale reports
	// are read at the start.
	linesSettle = 10 * time.Second
	linesRound  = 2 * time.Second
)

// lineGroup is the row of lines without visitors: three replicas of queue, and ticket.
func lineGroup() group {
	return group{rows: []string{"idle_lines"}, run: runLines}
}

func runLines(ctx context.Context, opts Options, wanted []string, done func(rounds.Result)) error {
	services := harness.Options{
		Production: true, Services: []string{platform.Queue, platform.Ticket}, Replicas: map[string]int{platform.Queue: lineReplicas},
	}
	return harness.Run(ctx, services, func(ctx context.Context, p *harness.Platform) error {
		opts.Say("%d lines open", openLines)
		l := &lines{platform: p}
		if err := l.open(ctx); err != nil {
			return err
		}
		polling, stop := context.WithCancel(ctx)
		defer stop()
		polls := make(chan error, 1)
		go func() { polls <- loop.Every(polling, time.Second, l.poll) }()
		loop.Sleep(ctx, linesSettle)
		return measureRows(ctx, opts, wanted, done, row{result: rounds.Result{
			Name: "idle_lines", What: fmt.Sprintf("%d open lines, of which %d have visitors, three replicas of queue", openLines, busyLines),
			Unit: "Redis commands/s beside visitors'", Limits: map[string]float64{"commands": 60, "cores": 0.05},
		}, subject: l.measure, check: func(context.Context) error {
			stop()
			return errors.Join(<-polls, l.failed)
		}})
	})
}

// lines are the open lines.
type lines struct {
	platform *harness.Platform
	queue    []queuev1.QueueServiceClient // of each replica
	turn     int
	failed   error // of polls
}

func lineName(i int) string { return fmt.Sprintf("bench-line-%04d", i) }

// open puts the events on sale and opens their lines. A line counts as used for a minute after that;
// to save the wait the replicas are restarted without this mark.
func (l *lines) open(ctx context.Context) error {
	l.dial()
	events := ticketv1.NewEventAdminServiceClient(l.platform.Dial(platform.Gateway, platform.Ticket, 0))
	err := atOnce(ctx, 16, openLines, func(ctx context.Context, i int) error {
		event := eventOf(lineName(i), 1, &ticketv1.SectionSpec{Section: "A", Capacity: new(int64(100))})
		event.Threshold = new(int64(1))
		_, err := events.PutEvent(ctx, event)
		if err == nil {
			_, err = l.queue[i%lineReplicas].OpenLine(ctx, &queuev1.OpenLineRequest{Caller: operator(), EventId: lineName(i)})
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("open the lines: %w", err)
	}
	replicas := l.platform.Service(platform.Queue)
	for i := range lineReplicas {
		replicas.Stop(i)
	}
	if err := l.platform.Redis().Del(ctx, "{queue:active-events}:busy").Err(); err != nil {
		return fmt.Errorf("mark the lines as not used: %w", err)
	}
	for i := range lineReplicas {
		replicas.Start(i) //nolint:contextcheck // the harness bounds the start
	}
	l.dial()
	return atOnce(ctx, 16, busyLines, func(ctx context.Context, i int) error {
		out, err := l.queue[i%lineReplicas].Check(ctx, visitorsOf(i))
		if err != nil {
			return err
		}
		return requirePlaces(out, i)
	})
}

func (l *lines) dial() {
	l.queue = nil
	for i := range lineReplicas {
		l.queue = append(l.queue, queuev1.NewQueueServiceClient(l.platform.Dial(platform.Gateway, platform.Queue, i)))
	}
}

// visitorsOf are the visitors of a busy line, in one batch, as a gateway sends them.
func visitorsOf(i int) *queuev1.LineRequest {
	var r queuev1.LineRequest
	for v := range lineVisitors {
		r.Items = append(r.Items, &queuev1.LineItem{Caller: &commonv1.Caller{UserId: fmt.Sprintf("bench-%d", v)}, EventId: lineName(i)})
	}
	return &r
}

func requirePlaces(out *queuev1.LineResponse, i int) error {
	for _, r := range out.GetResults() {
		if r.GetPlace() == nil {
			return fmt.Errorf("a visitor of %s has no place: %v", lineName(i), r.GetProblem())
		}
	}
	return nil
}

// poll lets the waiting visitors of every busy line poll, each second at another replica. Those
// inside keep their slots without contact for two minutes.
func (l *lines) poll(ctx context.Context) {
	l.turn++
	for i := range busyLines {
		waiting := visitorsOf(i)
		waiting.Items = waiting.GetItems()[1:]
		out, err := l.queue[(i+l.turn)%lineReplicas].Status(ctx, waiting)
		if err == nil {
			err = requirePlaces(out, i)
		}
		if ctx.Err() == nil {
			l.failed = errors.Join(l.failed, err)
		}
	}
}

// measure returns the commands per second, and the processor cores that the replicas use.
func (l *lines) measure(ctx context.Context) (float64, map[string]float64, error) {
	before, beforeCPU, err := l.count(ctx)
	began := time.Now()
	if err != nil {
		return 0, nil, err
	}
	loop.Sleep(ctx, linesRound)
	after, afterCPU, err := l.count(ctx)
	seconds := time.Since(began).Seconds()
	rate := (after - before) / seconds
	return rate, map[string]float64{"commands": rate, "cores": (afterCPU - beforeCPU).Seconds() / seconds}, err
}

// count returns the commands that Redis has run, without those by which visitors poll, and the CPU
// time of the replicas.
func (l *lines) count(ctx context.Context) (commands float64, cpu time.Duration, err error) {
	for i := range lineReplicas {
		used, err := cpuTime(l.platform.Service(platform.Queue).PID(i))
		if err != nil {
			return 0, 0, err
		}
		cpu += used
	}
	commands, err = lineCommands(ctx, l.platform.Redis())
	return commands, cpu, err
}

// lineCommands counts the commands that replicas of queue send apart from visitors' polls: scripts,
// the registry and pings. Scripts run some of them too, so the count is a little too high.
func lineCommands(ctx context.Context, rdb *redis.Client) (float64, error) {
	stats, err := rdb.InfoMap(ctx, "commandstats").Result()
	if err != nil {
		return 0, fmt.Errorf("read the number of commands: %w", err)
	}
	var sum float64
	for _, name := range []string{"evalsha", "eval", "smembers", "sadd", "srem", "ping"} {
		var calls float64
		if _, err := fmt.Sscanf(stats["Commandstats"]["cmdstat_"+name], "calls=%f,", &calls); err == nil {
			sum += calls
		}
	}
	return sum, nil
}
