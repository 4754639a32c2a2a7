package rpc

import (
	"cmp"
	"context"
	"strings"

	"urr.guru/pkg/cursor"
	"urr.guru/pkg/promotion"
	"urr.guru/pkg/rpc"
	workerv1 "urr.guru/proto/gen/urr/worker/v1"
	"urr.guru/services/worker/internal/deadletter"
)

// Admissions lists and redrives the dead letters of admissions.
type Admissions interface {
	List(ctx context.Context, cursor string, limit int) (page []promotion.DeadLetter, next string, err error)
	Redrive(ctx context.Context, ids []string, cursor string) (deadletter.RedriveResult, error)
}

var _ Admissions = (*deadletter.Admissions)(nil)

func (s *Admin) ListAdmissionDeadLetters(ctx context.Context, in *workerv1.ListAdmissionDeadLettersRequest) (*workerv1.ListAdmissionDeadLettersResponse, error) {
	if _, err := rpc.RequireRole(in, admin); err != nil {
		return nil, err
	}
	after, err := cursor.ParseText(in.GetCursor(), "")
	if err != nil {
		return nil, err
	}
	page, next, err := s.admissions.List(ctx, after, cmp.Or(int(in.GetLimit()), defaultLimit))
	if err != nil {
		return nil, err
	}
	out := &workerv1.ListAdmissionDeadLettersResponse{NextCursor: cursor.Text(next)}
	for _, l := range page {
		out.Items = append(out.Items, &workerv1.AdmissionDeadLetter{
			Id: l.ID, Key: l.EventID, Body: strings.ToValidUTF8(l.Body[:min(len(l.Body), maxBody)], ""), Error: l.ErrorCode + ": " + l.ErrorMessage, At: l.At,
			RedrivenAt: rpc.Optional(l.RedrivenAt),
		})
	}
	return out, nil
}

func (s *Admin) RedriveAdmissions(ctx context.Context, in *workerv1.RedriveAdmissionsRequest) (*workerv1.RedriveAdmissionsResponse, error) {
	if _, err := rpc.RequireRole(in, admin); err != nil {
		return nil, err
	}
	after, err := cursor.ParseText(in.GetCursor(), "")
	if err != nil {
		return nil, err
	}
	done, err := s.admissions.Redrive(ctx, in.GetIds(), after)
	if err != nil {
		return nil, err
	}
	return &workerv1.RedriveAdmissionsResponse{
		Redriven: done.Redriven, Refused: done.Refused, More: done.Next != "", NextCursor: cursor.Text(done.Next),
	}, nil
}
