package handlers

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"urr.guru/pkg/errs"
	"urr.guru/pkg/rpc"
	"urr.guru/proto/events"

	kafkav1 "urr.guru/proto/gen/urr/kafka/v1"
)

// DeadLettersTimeout is the time-out of the routes of dead letters. serviceTimeout is that of the
// call to each service.
const (
	DeadLettersTimeout = 15 * time.Second
	serviceTimeout     = 10 * time.Second
)

// DeadLetters lists and redrives the dead letters (Kafka events that could not be processed) of a
// topic. Each service has those of its own consumer group. So DeadLetters calls all services that
// consume the topic, concurrently, and joins their answers and their cursors.
type DeadLetters struct {
	services map[string]kafkav1.DeadLetterServiceClient
}

var _ kafkav1.DeadLetterServiceClient = (*DeadLetters)(nil)

// NewDeadLetters makes DeadLetters from the connections to services, by service name. The
// connection to a service that is not deployed is nil.
func NewDeadLetters(conns map[string]grpc.ClientConnInterface) *DeadLetters {
	d := &DeadLetters{services: map[string]kafkav1.DeadLetterServiceClient{}}
	for name, conn := range conns {
		if conn != nil {
			d.services[name] = kafkav1.NewDeadLetterServiceClient(conn)
		}
	}
	return d
}

// ListTopicDeadLetters returns a page of the dead letters of each service, sorted by time. It
// ignores the call options: an option stores the headers of one call, but this method makes several
// calls.
func (d *DeadLetters) ListTopicDeadLetters(
	ctx context.Context, in *kafkav1.ListTopicDeadLettersRequest, _ ...grpc.CallOption,
) (*kafkav1.ListTopicDeadLettersResponse, error) {
	out := &kafkav1.ListTopicDeadLettersResponse{}
	answers, err := askOwners(ctx, d, in, in.GetCursor(), &out.Unreachable,
		func(ctx context.Context, owner kafkav1.DeadLetterServiceClient, cursor string) (*kafkav1.ListTopicDeadLettersResponse, error) {
			request := proto.CloneOf(in)
			request.Cursor = cursor
			return owner.ListTopicDeadLetters(ctx, request)
		})
	if err != nil {
		return nil, err
	}
	for _, answer := range answers {
		out.Items = append(out.Items, answer.GetItems()...)
	}
	slices.SortStableFunc(out.GetItems(), func(a, b *kafkav1.TopicDeadLetter) int { return cmp.Compare(b.GetAt(), a.GetAt()) })
	out.NextCursor = joinCursors(answers)
	return out, nil
}

// RedriveTopic redrives dead letters of a topic: those with the given ids, or else a page of each
// service. It is unknown which service has an id, so every service gets all ids.
func (d *DeadLetters) RedriveTopic(ctx context.Context, in *kafkav1.RedriveTopicRequest, _ ...grpc.CallOption) (*kafkav1.RedriveTopicResponse, error) {
	out := &kafkav1.RedriveTopicResponse{}
	cursor := in.GetCursor()
	if len(in.GetIds()) > 0 {
		cursor = ""
	}
	answers, err := askOwners(ctx, d, in, cursor, &out.Unreachable,
		func(ctx context.Context, owner kafkav1.DeadLetterServiceClient, cursor string) (*kafkav1.RedriveTopicResponse, error) {
			request := proto.CloneOf(in)
			request.Cursor = cursor
			return owner.RedriveTopic(ctx, request)
		})
	if err != nil {
		return nil, err
	}
	refused := in.GetIds()
	for _, name := range slices.Sorted(maps.Keys(answers)) {
		out.Redriven = append(out.Redriven, answers[name].GetRedriven()...)
		if len(in.GetIds()) == 0 {
			refused = append(refused, answers[name].GetRefused()...)
		}
	}
	for _, id := range refused {
		if !slices.Contains(out.GetRedriven(), id) {
			out.Refused = append(out.Refused, id)
		}
	}
	out.NextCursor = joinCursors(answers)
	out.More = out.GetNextCursor() != ""
	return out, nil
}

// topicRequest is a request about a topic.
type topicRequest interface {
	proto.Message
	GetTopic() string
}

// askOwners calls ask for the services that consume a topic, or only for those that the cursor
// lists. It appends the names of services that do not answer to unreachable. It fails if the
// request is wrong, or if no service answers.
func askOwners[A any](
	ctx context.Context, d *DeadLetters, in topicRequest, cursor string, unreachable *[]string,
	ask func(ctx context.Context, owner kafkav1.DeadLetterServiceClient, cursor string) (A, error),
) (map[string]A, error) {
	if err := rpc.Validate(in); err != nil {
		return nil, err
	}
	consumers := events.Consumers(in.GetTopic())
	if len(consumers) == 0 {
		return nil, errs.ErrNotFound
	}
	cursors, err := splitCursor(cursor, consumers)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, serviceTimeout)
	defer cancel()
	owners := slices.Sorted(maps.Keys(cursors))
	answers, failures := make([]A, len(owners)), make([]error, len(owners))
	var calls errgroup.Group
	for i, name := range owners {
		owner := d.services[name]
		if owner == nil {
			failures[i] = errs.ErrUnavailable
			continue
		}
		calls.Go(func() error {
			answers[i], failures[i] = ask(ctx, owner, cursors[name])
			return nil
		})
	}
	_ = calls.Wait() // each call stores its own result
	byService := map[string]A{}
	for i, name := range owners {
		switch failure := failures[i]; {
		case failure == nil:
			byService[name] = answers[i]
		case errs.From(failure).Kind.CausedByClient():
			return nil, failure
		default:
			*unreachable = append(*unreachable, name)
		}
	}
	if len(byService) == 0 {
		return nil, errs.ErrUnavailable.Wrap(failures[0])
	}
	return byService, nil
}

// joinCursors joins the cursors of the services that have more letters: name:cursor.name:cursor.
func joinCursors[A interface{ GetNextCursor() string }](answers map[string]A) string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(answers)) {
		if next := answers[name].GetNextCursor(); next != "" {
			all = append(all, name+":"+next)
		}
	}
	return strings.Join(all, ".")
}

// splitCursor returns the services to call, with the cursor of each. Without a cursor these are all
// consumers, and each begins with its first page.
func splitCursor(cursor string, consumers []string) (map[string]string, error) {
	cursors := map[string]string{}
	if cursor == "" {
		for _, name := range consumers {
			cursors[name] = ""
		}
		return cursors, nil
	}
	for part := range strings.SplitSeq(cursor, ".") {
		name, next, found := strings.Cut(part, ":")
		if !found || next == "" || !slices.Contains(consumers, name) {
			return nil, errs.ErrInvalidCursor
		}
		cursors[name] = next
	}
	return cursors, nil
}
