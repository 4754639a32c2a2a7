package postgres

import (
	"context"

	"urr.guru/services/ticket/internal/event"
	"urr.guru/services/ticket/internal/postgres/db"
)

// RecordOf reads what limits a user's holds at an event. A transaction that decides by it has locked
// the user.
func RecordOf(ctx context.Context, q *Queries, user User) (event.Record, error) {
	users := []string{user.UserID}
	rows, err := q.RecordsOf(ctx, db.RecordsOfParams{
		UserIds: users, EventID: user.EventID, Now: q.ClockTime(), ForgottenAfter: event.ForgottenAfter.Seconds(),
		Forgiven: event.Forgiven,
	})
	if err != nil {
		return event.Record{}, err
	}
	record := Record(rows[0])
	if user.SeriesID == "" {
		return record, nil
	}
	series, err := q.UsedInSeries(ctx, db.UsedInSeriesParams{UserIds: users, SeriesID: user.SeriesID, Now: q.ClockTime()})
	if err != nil {
		return event.Record{}, err
	}
	record.InSeries = series[0].Used
	return record, nil
}

// Sale converts a row.
func Sale(r *db.SaleOfRow) event.Sale {
	return event.Sale{
		State: event.State(r.State), PresaleAt: TimeOrZero(r.PresaleOpensAt), OpenAt: r.SalesOpenAt, CloseAt: r.SalesCloseAt,
		MaxPerUser: int(r.MaxPerUser), PresaleMaxPerUser: int(r.PresaleMaxPerUser), MaxPerUserInSeries: int(r.MaxPerUserInSeries),
		MaxReturnsPerUser: int(r.MaxReturnsPerUser), ReturnsTo: event.ReturnsTo(r.ReturnsTo),
	}
}

// Record converts a row without the places in the event's series.
func Record(r db.RecordsOfRow) event.Record {
	return event.Record{
		Used: r.Used, Returning: r.Pending, Returned: r.Returned, Unpaid: r.Unpaid, LastUnpaid: r.LastUnpaid.UTC(),
		Pages: r.Pages, FirstPage: r.FirstPage.UTC(),
	}
}
