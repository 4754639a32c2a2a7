package handlers

import (
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"github.com/grpc-ecosystem/grpc-gateway/v2/utilities"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"urr.guru/pkg/csvfile"
	"urr.guru/pkg/errs"
	"urr.guru/services/gateway/internal/caller"
	"urr.guru/services/gateway/internal/edge"

	statsv1 "urr.guru/proto/gen/urr/stats/v1"
)

// daysPage is how many days one call of the stats service returns for an export.
const daysPage = 1000

// FigureHandlers serve the figures of events as CSV.
type FigureHandlers struct{ stats statsv1.StatsServiceClient }

// NewFigureHandlers makes the handlers of the exports of figures.
func NewFigureHandlers(stats statsv1.StatsServiceClient) *FigureHandlers {
	return &FigureHandlers{stats}
}

// Series responds with an event's public series.
func (h *FigureHandlers) Series(w http.ResponseWriter, r *http.Request, q *edge.Request) error {
	in := &statsv1.GetEventSeriesRequest{}
	if err := readQuery(r, q, in); err != nil {
		return err
	}
	series, err := h.stats.GetEventSeries(r.Context(), in)
	if err != nil {
		return err
	}
	f := newCSVFile(w, "series-"+in.GetEventId())
	f.line(append([]string{"at"}, numberNames("", &statsv1.SeriesPoint{})...))
	for _, p := range series.GetItems() {
		f.line(append([]string{timeText(p.GetAt().AsTime())}, numbers(p)...))
	}
	return f.end()
}

// OperatorSeries responds with an event's series of all figures.
func (h *FigureHandlers) OperatorSeries(w http.ResponseWriter, r *http.Request, q *edge.Request) error {
	in := &statsv1.GetEventSeriesForOperatorsRequest{}
	if err := readQuery(r, q, in); err != nil {
		return err
	}
	series, err := h.stats.GetEventSeriesForOperators(caller.With(r.Context(), q.Caller()), in)
	if err != nil {
		return err
	}
	f := newCSVFile(w, "series-"+in.GetEventId())
	f.line(append([]string{"at"}, figureNames()...))
	for _, p := range series.GetItems() {
		f.figures([]string{timeText(p.GetAt().AsTime())}, p.GetFigures())
	}
	return f.end()
}

// Days responds with the figures by day. It reads each page in a separate call of the stats
// service, so that a slow client does not keep a call open.
func (h *FigureHandlers) Days(w http.ResponseWriter, r *http.Request, q *edge.Request) error {
	in := &statsv1.ListDaysRequest{}
	if err := readQuery(r, q, in); err != nil {
		return err
	}
	in.Limit, in.Cursor = daysPage, ""
	ctx := caller.With(r.Context(), q.Caller())
	page, err := h.stats.ListDays(ctx, in)
	if err != nil {
		return err
	}
	f := newCSVFile(w, "days-"+in.GetFrom()+"-"+in.GetTo())
	f.line(append([]string{"day", "eventId", "timeZone"}, figureNames()...))
	for {
		for _, d := range page.GetItems() {
			f.figures([]string{d.GetDay(), d.GetEventId(), d.GetTimeZone()}, d.GetFigures())
		}
		if in.Cursor = page.GetNextCursor(); in.GetCursor() == "" || f.flush() != nil {
			return f.end()
		}
		if page, err = h.stats.ListDays(ctx, in); err != nil {
			panic(http.ErrAbortHandler) // otherwise the client would take a part of the days for all of them
		}
	}
}

// noFilter lets all parameters of a query through.
var noFilter = utilities.NewDoubleArray(nil)

// readQuery fills a request message from the path, and from the query as pass-through routes do.
func readQuery(r *http.Request, q *edge.Request, in proto.Message) error {
	err := runtime.PopulateQueryParameters(in, r.URL.Query(), noFilter)
	if err != nil {
		return errs.ErrInvalidRequest.Wrap(err).WithFields(errs.Field{Path: "query", Message: "has a parameter that cannot be read"})
	}
	if event := q.Param("event_id"); event != "" {
		m := in.ProtoReflect()
		m.Set(m.Descriptor().Fields().ByName("event_id"), protoreflect.ValueOfString(event))
	}
	return nil
}

func timeText(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// numberNames returns the JSON names of a message's int64 fields, each after the prefix.
func numberNames(prefix string, m proto.Message) (names []string) {
	for fd := range numberFields(m) {
		name := fd.JSONName()
		if prefix != "" {
			name = prefix + string(name[0]-'a'+'A') + name[1:]
		}
		names = append(names, name)
	}
	return names
}

func numbers(m proto.Message) (cells []string) {
	for fd := range numberFields(m) {
		cells = append(cells, strconv.FormatInt(m.ProtoReflect().Get(fd).Int(), 10))
	}
	return cells
}

// numberFields iterates over the int64 fields of a message. All figures have this type.
func numberFields(m proto.Message) func(func(protoreflect.FieldDescriptor) bool) {
	return func(yield func(protoreflect.FieldDescriptor) bool) {
		fields := m.ProtoReflect().Descriptor().Fields()
		for i := range fields.Len() {
			if fd := fields.Get(i); fd.Kind() == protoreflect.Int64Kind && !yield(fd) {
				return
			}
		}
	}
}

// figureNames returns the names of the CSV columns for Figures. Those for the revenue have a
// prefix, since Figures and Revenue both have a field `confirmed`.
func figureNames() []string {
	names := append(numberNames("", &statsv1.Figures{}), "currency")
	return append(append(names, numberNames("revenue", &statsv1.Revenue{})...), numberNames("", &statsv1.MoneyByCause{})...)
}

// csvFile is a CSV file that is being sent.
type csvFile struct {
	csv       *csvfile.Writer
	deadlines *http.ResponseController
}

func newCSVFile(w http.ResponseWriter, name string) *csvFile {
	w.Header().Set("Content-Type", "text/csv; charset=utf-8")
	w.Header().Set("Content-Disposition", `attachment; filename="`+name+`.csv"`) // its form needs no quoting
	w.Header()["Cache-Control"] = edge.NoStore
	return &csvFile{csvfile.NewWriter(w), http.NewResponseController(w)}
}

func (f *csvFile) line(cells []string) { f.csv.Write(cells...) }

// figures writes a line for each currency of the figures, at least one. The counts are in the first
// line and zero in the others, so that the sum of each column is right.
func (f *csvFile) figures(head []string, figures *statsv1.Figures) {
	revenue := figures.GetRevenue()
	if len(revenue) == 0 {
		revenue = []*statsv1.Revenue{{}}
	}
	for i, r := range revenue {
		if i > 0 {
			figures = &statsv1.Figures{}
		}
		cells := append(append([]string{}, head...), numbers(figures)...)
		cells = append(append(cells, r.GetCurrency()), numbers(r)...)
		causes := r.GetByCause()
		if causes == nil {
			causes = &statsv1.MoneyByCause{}
		}
		f.line(append(cells, numbers(causes)...))
	}
}

// flush sends what was written. It fails once the client has disconnected.
func (f *csvFile) flush() error {
	if err := f.deadlines.SetWriteDeadline(time.Now().Add(exportWriteTimeout)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	return f.csv.Flush()
}

// end sends the rest of the file. It is no error if the client has disconnected.
func (f *csvFile) end() error {
	_ = f.flush()
	return nil
}
