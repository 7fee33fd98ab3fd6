// SPDX-License-Identifier: LGPL-2.1-or-later
//
// table: fills a block of a table on the device, and reads the block with rows and columns swapped.
//
//     valac --pkg gpumem-1.0 table.vala

const int N_ROWS = 400;
const int N_COLUMNS = 600;

void run () throws Error {
    var context = new Gpu.Context.default ();
    var stream = context.get_default_stream ();
    var table = new Gpu.Array.filled (context, null, stream, Gpu.DType.FLOAT32,
                                      { N_ROWS, N_COLUMNS }, Gpu.ArrayOrder.C, null);

    // Views do not copy the memory. These are rows 100 to 199, and every second column of these
    // rows.
    var block = table.slice (0, 100, 200, 1).slice (1, 0, N_COLUMNS, 2);
    float[] value = { 1.5f };
    unowned uint8[] element = (uint8[]) value;
    element.length = (int) sizeof (float);
    stream.fill_array (block, new Bytes (element));

    // Reading waits for the fill.
    var bytes = table.transpose (null).read_bytes (stream, Gpu.ArrayOrder.C);
    unowned float[] numbers = (float[]) bytes.get_data ();
    for (int column = 0; column < N_COLUMNS; column++) {
        for (int row = 0; row < N_ROWS; row++) {
            var expected = row >= 100 && row < 200 && column % 2 == 0 ? 1.5f : 0.0f;
            if (numbers[column * N_ROWS + row] != expected)
                throw new Gpu.Error.FAILED (@"row $row, column $column is wrong");
        }
    }
    print ("transposed %d numbers\n", N_ROWS * N_COLUMNS);
}

int main () {
    try {
        run ();
        return 0;
    } catch (Error e) {
        printerr ("table: %s\n", e.message);
        return 1;
    }
}
