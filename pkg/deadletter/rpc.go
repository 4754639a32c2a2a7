package deadletter

import (
	"cmp"
	"context"
	"encoding/binary"
	"maps"
	"math"
	"slices"
	"strings"

	"google.golang.org/grpc"

	"urr.guru/pkg/cursor"
	"urr.guru/pkg/errs"
	"urr.guru/pkg/kafka"
	"urr.guru/pkg/lifecycle"
	"urr.guru/pkg/rpc"
	kafkav1 "urr.guru/proto/gen/urr/kafka/v1"
)

const (
	adminRole    = "admin"
	defaultLimit = 20
	maxRedrives  = 100  // largest number of letters in one call
	maxBody      = 4096 // bytes of a record's value that operators are shown
)

// Attach registers the RPC service for the dead letters of a service on its gRPC server, with a
// producer that is closed at shutdown.
func Attach(a *lifecycle.App, server grpc.ServiceRegistrar, source Source, marks Marks) error {
	producer, err := kafka.NewRedriver(source.Kafka, a.Name()+"-redrive")
	if err != nil {
		return err
	}
	a.OnClose("redrives", producer.Close)
	Register(server, New(source, producer, marks))
	return nil
}

// Register registers the RPC service for these letters on a gRPC server.
func Register(server grpc.ServiceRegistrar, letters *Letters) {
	kafkav1.RegisterDeadLetterServiceServer(server, &rpcService{letters: letters})
}

type rpcService struct {
	kafkav1.UnimplementedDeadLetterServiceServer

	letters *Letters
}

// authorize refuses callers without the role admin, and topics that the group does not consume.
func (s *rpcService) authorize(in interface{ GetTopic() string }) error {
	if _, err := rpc.RequireRole(in, adminRole); err != nil {
		return err
	}
	if !slices.Contains(s.letters.source.Topics, in.GetTopic()) {
		return errs.ErrNotFound
	}
	return nil
}

func (s *rpcService) ListTopicDeadLetters(ctx context.Context, in *kafkav1.ListTopicDeadLettersRequest) (*kafkav1.ListTopicDeadLettersResponse, error) {
	if err := s.authorize(in); err != nil {
		return nil, err
	}
	before := kafka.Offsets{}
	if err := decodeCursor(in.GetCursor(), before); err != nil {
		return nil, err
	}
	page, next, err := s.letters.List(ctx, in.GetTopic(), before, cmp.Or(int(in.GetLimit()), defaultLimit))
	if err != nil {
		return nil, err
	}
	out := &kafkav1.ListTopicDeadLettersResponse{NextCursor: encodeCursor(next)}
	for i := range page {
		out.Items = append(out.Items, toMessage(&page[i]))
	}
	return out, nil
}

func toMessage(l *Letter) *kafkav1.TopicDeadLetter {
	out := &kafkav1.TopicDeadLetter{
		Id: l.ID(), Group: l.Headers[kafka.HeaderGroup], Key: validUTF8(string(l.Key)), Type: validUTF8(l.Type),
		Body:  validUTF8(string(l.Value[:min(len(l.Value), maxBody)])),
		Error: validUTF8(l.Headers[kafka.HeaderError]), Origin: validUTF8(l.Headers[kafka.HeaderOrigin]), At: l.Time.UnixMilli(),
	}
	if !l.RedrivenAt.IsZero() {
		out.RedrivenAt = new(l.RedrivenAt.UnixMilli())
	}
	return out
}

// validUTF8 replaces bytes that are not valid UTF-8, since a protobuf string must not contain them.
func validUTF8(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

func (s *rpcService) RedriveTopic(ctx context.Context, in *kafkav1.RedriveTopicRequest) (*kafkav1.RedriveTopicResponse, error) {
	if err := s.authorize(in); err != nil {
		return nil, err
	}
	out := &kafkav1.RedriveTopicResponse{}
	if len(in.GetIds()) == 0 {
		return out, s.redriveOldest(ctx, in, out)
	}
	letters, err := s.letters.Find(ctx, in.GetTopic(), in.GetIds())
	if err != nil {
		return nil, err
	}
	done, err := s.letters.Redrive(ctx, in.GetTopic(), letters)
	out.Redriven = done.Redriven
	for _, id := range in.GetIds() {
		if !slices.Contains(done.Redriven, id) {
			out.Refused = append(out.Refused, id)
		}
	}
	return out, err
}

// redriveOldest redrives the oldest letters after the request's cursor and adds the results to out.
// The first cursor contains the end of the topic, so that letters that fail again, and are appended
// to the topic, are not redriven for ever.
func (s *rpcService) redriveOldest(ctx context.Context, in *kafkav1.RedriveTopicRequest, out *kafkav1.RedriveTopicResponse) error {
	span, err := s.requestedSpan(ctx, in)
	if err != nil {
		return err
	}
	for range maxPages {
		letters, remaining, err := s.letters.Next(ctx, in.GetTopic(), span, maxRedrives-len(out.GetRedriven()))
		if err != nil {
			return err
		}
		done, err := s.letters.Redrive(ctx, in.GetTopic(), letters)
		if err != nil {
			return err
		}
		out.Redriven, out.Refused, span = append(out.Redriven, done.Redriven...), append(out.Refused, done.Refused...), remaining
		if span.Empty() || len(out.GetRedriven()) == maxRedrives {
			break
		}
	}
	if !span.Empty() {
		out.More, out.NextCursor = true, encodeCursor(span.From, span.To)
	}
	return nil
}

func (s *rpcService) requestedSpan(ctx context.Context, in *kafkav1.RedriveTopicRequest) (kafka.Span, error) {
	if in.GetCursor() == "" {
		return s.letters.reader.Span(ctx, in.GetTopic())
	}
	span := kafka.Span{From: kafka.Offsets{}, To: kafka.Offsets{}}
	return span, decodeCursor(in.GetCursor(), span.From, span.To)
}

// encodeCursor encodes one or more sets of offsets as a text. All sets have the same partitions.
func encodeCursor(columns ...kafka.Offsets) string {
	var raw []byte
	for _, p := range slices.Sorted(maps.Keys(columns[0])) {
		raw = binary.AppendUvarint(raw, uint64(p)) //nolint:gosec // not negative
		for _, column := range columns {
			raw = binary.AppendUvarint(raw, uint64(column[p])) //nolint:gosec // not negative
		}
	}
	return cursor.Bytes(raw)
}

func decodeCursor(text string, columns ...kafka.Offsets) error {
	raw, err := cursor.ParseBytes(text)
	if err != nil {
		return err
	}
	var values []int64
	for len(raw) > 0 {
		v, n := binary.Uvarint(raw)
		if n <= 0 || v > math.MaxInt64 {
			return errs.ErrInvalidCursor
		}
		values, raw = append(values, int64(v)), raw[n:]
	}
	for row := range slices.Chunk(values, 1+len(columns)) {
		if len(row) != 1+len(columns) || row[0] > math.MaxInt32 {
			return errs.ErrInvalidCursor
		}
		for i, column := range columns {
			column[int32(row[0])] = row[1+i] //nolint:gosec // checked
		}
	}
	return nil
}
